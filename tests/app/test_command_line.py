"""The command line as people use it: what it says, where, and how it ends."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from studio.cli.main import COMMANDS
from studio.dataset.audio import read_audio
from studio.memory.gpus import detected_gpus
from studio.options.arguments import config_to_dict
from studio.options.training import TrainingConfig
from studio.settings import DEMO_SPEECH
from tests.conftest import RunStudio
from tests.forking import Popen, forked_server
from tests.reading import read_manifest
from tests.studio_process import ROOT, command
from tests.unit.registry.conftest import make_adapter
from tests.unit.transcription.small_models import save_adapter


def assert_refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Exit code 2, nothing on standard output, and one sentence as the last line of standard error."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1, done.stderr
    for word in words:
        assert word in errors[0], errors[0]


@pytest.fixture
def noise(tmp_path: Path) -> Path:
    """A second of quiet noise."""
    path = tmp_path / "noise.wav"
    soundfile.write(path, 0.01 * np.random.default_rng(0).standard_normal(16_000), 16_000)
    return path


def test_help_names_every_command_and_each_has_its_own(run_studio: RunStudio) -> None:
    done = run_studio("--help")
    assert done.returncode == 0
    for name in COMMANDS:
        assert name in done.stdout
        helped = run_studio(name, "--help")
        assert helped.returncode == 0 and f"python -m studio {name}" in helped.stdout, helped.stderr


ELSEWHERE = {"app", "train", "demo", "transcribe", "doctor"}
"""Started as processes by tests of their own."""
CHEAPEST = {
    "models": (["list"], 0, "demo"),
    "runs": (["--json"], 0, "[]"),
    "export": (["demo", "--format", "merged"], 2, "only an adapter can be merged"),
    "serve": (["--model", "demo", "--print"], 0, "curl"),
    "publish": (["demo", "somebody/demo", "--dry_run"], 2, "comes with the studio"),
    "evaluate": (["--models", "demo", "--data", "demo", "--max_samples", "1", "--json"], 0, '"demo"'),
    "estimate": (["--base_model", "demo"], 0, "GiB"),
    "fit": (["--memory_gib", "1", "--base_model", "large-v3"], 1, "Nothing fits"),
    "probe": (["--list"], 0, "Nothing was measured yet.\n"),
    "explain-oom": (["-"], 1, "memory"),
    "record": (["list"], 0, "MANIFEST"),
    "add-data": ([], 0, "TRAIN DATA"),
    "check-data": (["demo:test", "--max_rows", "2"], 0, "2 of 2 rows"),
}


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ELSEWHERE])
def test_each_command_works_in_a_process_of_its_own(run_process: RunStudio, name: str) -> None:
    arguments, code, word = CHEAPEST[name]
    done = run_process(name, *arguments)
    assert done.returncode == code, done.stderr
    assert word in (done.stderr if code == 2 else done.stdout) and "Traceback" not in done.stderr


def test_a_reader_that_leaves_is_no_error(environ: dict[str, str], studio_home: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "studio", "train", "--help"],
        cwd=tmp_path,
        env={**environ, "PYTHONPATH": str(ROOT), "STUDIO_HOME": str(studio_home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout and process.stderr
    process.stdout.close()
    assert process.stderr.read() == b""
    process.wait(60)


def assert_no_run_was_made(home: Path) -> None:
    assert [*(home / "runs").glob("*"), *(home / "models").glob("*")] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian"], ["train"]),
        (["train", "--learning_rat", "1e-3"], ["learning_rate"]),
        (["transcribe", "--modle", "demo", "a.wav"], ["--model"]),
        (["estimate", "--base-modle", "tiny"], ["base_model"]),
        (["evaluate", "--nomalizer", "none"], ["--normalizer"]),
        (["models", "destroy", "demo"], ["rename"]),
        (["runs", "status"], ["status ID"]),
        (["train", "--learning_rate", "fast"], ["learning_rate", "fast"]),
        (["train", "--lora_r", "0"], ["lora_r", "0"]),
        (["estimate", "--gpu", "RTX 9999 Ultra Max"], ["RTX 9999 Ultra Max"]),
        (["fit", "--gpu", "RTX 9999 Ultra Max"], ["RTX 9999 Ultra Max"]),
        (["fit", "--memory_gib", "-4"], ["must be between 0 and 100000", "-4"]),
        (["fit", "--preset", "6gb"], ["8gb", "breeze"]),
        (["explain-oom", "missing.log"], ["missing.log"]),
        (["explain-oom", "-", "--lora_r", "0"], ["lora_r"]),
        (["transcribe"], ["recording"]),
        (
            ["evaluate", "--data", "demo", "--embed_audio", "--output_file", "a.csv"],
            ["--embed_audio", ".html"],
        ),
        (["evaluate", "--audio_path", "a.wav", "--errors"], ["--errors", "--data"]),
        (["evaluate", "--data", "demo", "--output_file", "a.xyz"], ["a.xyz", ".json, .csv or .html"]),
        (["app", "--port", "99999"], ["99999", "ports are 1 to 65535"]),
        (["app", "--port", "0"], ["Port 0", "ports are 1 to 65535"]),
        (["serve", "--port", "0"], ["Port 0", "ports are 1 to 65535"]),
        (["serve", "--port", "-5"], ["Port -5", "ports are 1 to 65535"]),
        (["evaluate", "--models", "demo"], ["--data"]),
        (["check-data"], ["data"]),
        (["train", "--base_model", "large-v3-turbi"], ["large-v3-turbi", "large-v3-turbo"]),
        (["transcribe", "a.wav", "--model", "large-v3-turbi"], ["large-v3-turbi", "large-v3-turbo"]),
        (["estimate", "--base_model", "large-v3-turbi"], ["large-v3-turbi", "large-v3-turbo"]),
        (["models", "delete", "demo"], ["--yes"]),
        (["models", "delete", "demo", "--yes"], ["demo"]),
        (["models", "rename", "demo", "mine"], ["demo"]),
        (["explain-oom", "--run", "nobody"], ["nobody"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_a_slip_is_answered_with_what_was_meant(
    run_studio: RunStudio, studio_home: Path, arguments: list[str], words: list[str]
) -> None:
    assert_refused(run_studio(*arguments), *words)
    assert_no_run_was_made(studio_home)


def test_a_setting_that_is_no_number_is_refused(run_process: RunStudio) -> None:
    assert_refused(run_process("models", extra={"STUDIO_THREADS": "many"}), "STUDIO_THREADS", "many")


BAD_RECORDINGS = {
    "missing.wav": (None, ""),
    "empty.wav": (b"", "empty"),
    "text.wav": (b"This is not a recording.\n" * 100, ""),
    "nothing.wav": (np.zeros(0, np.int16), ""),
    "nan.wav": (np.full(16_000, np.nan, np.float32), ""),
}


@pytest.mark.parametrize("name", BAD_RECORDINGS)
def test_a_recording_that_cannot_be_used_is_refused(run_studio: RunStudio, tmp_path: Path, name: str) -> None:
    content, word = BAD_RECORDINGS[name]
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    elif content is not None:
        soundfile.write(tmp_path / name, content, 16_000, subtype="FLOAT" if content.size else "PCM_16")
    assert_refused(run_studio("transcribe", name), name, word)


def test_one_bad_recording_does_not_keep_the_others_from_being_transcribed(
    run_studio: RunStudio, tmp_path: Path, noise: Path
) -> None:
    (tmp_path / "empty.wav").touch()
    done = run_studio("transcribe", "empty.wav", noise, "--json")
    assert done.returncode == 2
    bad, good = json.loads(done.stdout)
    assert bad["error"] and not good["error"]


BAD_MANIFESTS = {
    "missing": (None, ["list.jsonl"]),
    "empty": (b"", ["list.jsonl"]),
    "not UTF-8": ('{"audio_path": "a.wav", "text": "Grüße"}\n'.encode("latin-1"), ["UTF-8"]),
    "missing audio": (b'{"audio_path": "gone.wav", "text": "hello"}\n', ["gone.wav"]),
    "no row with a text": (
        b'{"audio_path": "noise.wav", "text": ""}\n' * 2,
        ["has 2 rows, and none can be used", "no text"],
    ),
    "misspelt column": (b'{"audio_paht": "noise.wav", "text": "hello"}\n', ["audio_path"]),
}


@pytest.mark.parametrize("command", ["train", "check-data", "evaluate"])
@pytest.mark.parametrize("case", BAD_MANIFESTS)
def test_a_manifest_that_cannot_be_used_is_refused(
    run_studio: RunStudio, tmp_path: Path, studio_home: Path, noise: Path, command: str, case: str
) -> None:
    content, words = BAD_MANIFESTS[case]
    if content is not None:
        (tmp_path / "list.jsonl").write_bytes(content)
    option = "--train_data" if command != "evaluate" else "--data"
    assert_refused(run_studio(command, option, "list.jsonl"), *words)
    assert_no_run_was_made(studio_home)


def test_labels_that_no_model_can_take_are_named_by_line(
    run_studio: RunStudio, tmp_path: Path, noise: Path
) -> None:
    rows = [
        {"audio_path": str(noise), "text": "hello"},
        {"audio_path": str(noise), "text": "supercalifragilistic " * 200},
    ]
    (tmp_path / "list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = run_studio("check-data", "list.jsonl", "--base_model", "demo", "--quarantine", "bad/rows.jsonl")
    assert done.returncode == 1, done.stderr
    assert "line 2" in done.stdout and "448" in done.stdout
    (bad,) = (tmp_path / "bad" / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(bad)["line"] == 2


def test_an_unreachable_hub_is_said_in_one_sentence(
    run_studio: RunStudio, noise: Path, tmp_path: Path
) -> None:
    extra = {"HF_HUB_CACHE": str(tmp_path / "cache")}
    assert_refused(run_studio("transcribe", noise, "--model", "tiny", extra=extra), "openai/whisper-tiny")
    assert_refused(run_studio("train", "--base_model", "tiny", extra=extra), "openai/whisper-tiny")


def test_a_run_name_cannot_lead_out_of_the_folder(
    run_studio: RunStudio, studio_home: Path, tmp_path: Path
) -> None:
    done = run_studio("train", "--run_name", "../../elsewhere", "--no_wait", "--json")
    assert done.returncode == 0, done.stderr
    run_id = json.loads(done.stdout)["run_id"]
    assert [path.name for path in (studio_home / "runs").iterdir()] == [run_id]
    assert not list(tmp_path.glob("elsewhere*"))


def test_a_home_that_cannot_be_written_is_refused(run_studio: RunStudio, tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.touch()
    assert_refused(run_studio("models", home=blocker / "home"), "STUDIO_HOME")


def test_a_place_for_results_is_checked_before_the_work(
    run_studio: RunStudio, tmp_path: Path, noise: Path
) -> None:
    blocker = tmp_path / "file"
    blocker.touch()
    assert_refused(run_studio("transcribe", noise, "--output_file", blocker / "x.json"), "x.json")
    assert_refused(run_studio("transcribe", noise, "--output_file", tmp_path), str(tmp_path))


def test_estimate_answers_machines(run_studio: RunStudio) -> None:
    done = run_studio("estimate", "--base-model", "small", "--gpu", "24GiB", "--fp16=True", "--json")
    answer = json.loads(done.stdout)
    assert answer["verdict"] == "fits"
    assert answer["device_bytes"] >= answer["reserved_bytes"] >= answer["allocated_bytes"] > 0
    assert answer["peak_phase"]
    parts = ("weights_trainable", "weights_frozen", "weights_quantized", "weight_casts", "gradients")
    parts += ("optimizer_states", "activations", "logits_and_loss", "temporaries", "overhead")
    assert sum(answer.get(f"{part}_bytes", 0) for part in parts) == answer["device_bytes"]


def test_models_lists_the_demo_model_and_the_released_ones(run_studio: RunStudio) -> None:
    rows = json.loads(run_studio("models", "list", "--json").stdout)["models"]
    ids = {row["id"] for row in rows}
    assert {"demo", "openai/whisper-tiny", "openai/whisper-large-v3-turbo"} <= ids
    assert "d_model" in run_studio("models", "show", "demo").stdout


def test_models_show_tells_languages_and_what_a_model_is_good_for(run_studio: RunStudio) -> None:
    def fact(model: str, name: str) -> str:
        lines = run_studio("models", "show", model).stdout.splitlines()
        return next(line.split(maxsplit=1)[1] for line in lines if line.startswith(name))

    assert fact("KBLab/kb-whisper-small", "languages") == "Swedish"
    assert fact("NbAiLab/nb-whisper-small", "languages") == "Norwegian, Nynorsk, English"
    assert fact("ivrit-ai/whisper-large-v3", "note").startswith("Hebrew: set the language")
    assert fact("MediaTek-Research/Breeze-ASR-26", "note") == "Taiwanese Hokkien, written as Mandarin."
    assert [fact(name, "languages") for name in ("small", "small.en", "demo")] == [
        "many",
        "English only",
        "English",
    ]


def test_models_show_lists_what_was_made_of_a_model_with_its_proof_and_what_was_measured(
    run_studio: RunStudio, studio_home: Path
) -> None:
    (home,) = (ROOT / "tests" / "golden" / "homes").iterdir()
    shutil.copytree(home / "models", studio_home / "models")
    shown = run_studio("models", "show", "finished").stdout.splitlines()
    place = next(place for place, line in enumerate(shown) if line.startswith("EXPORT "))
    assert shown[place].split() == ["EXPORT", "FORM", "WEIGHTS", "SIZE", "PROOF"]
    told = "finished-ct2-int8 ctranslate2 int8 2.81 MiB 12 of 30 tokens differ (3 clips)"
    assert " ".join(shown[place + 1].split()) == told
    assert "EXPORT" not in run_studio("models", "show", "finished-ct2-int8").stdout
    card = {"schema_version": 1, "base_model": "openai/whisper-tiny", "languages": ["zh", "cy"]}
    make_adapter(studio_home / "models" / "tuned", "openai/whisper-tiny", card=card)
    assert "many, tuned to Chinese, Welsh" in run_studio("models", "show", "tuned").stdout
    path = studio_home / "models" / "finished" / "model.json"
    forms = {"rows": [{"name": "ggml:q8_0", "wer": 0.125}], "recommended": "ggml:q8_0", "clips": 9}
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "forms": forms}), encoding="utf-8")
    again = run_studio("models", "show", "finished").stdout
    assert "ggml:q8_0  12.5 %" in again and "ggml:q8_0 is the fastest form" in again


def test_models_show_tells_what_a_model_has_lost_and_the_run_that_keeps_more(
    run_studio: RunStudio, studio_home: Path, demo_model: Path
) -> None:
    folder = studio_home / "models" / "mine"
    shutil.copytree(demo_model, folder)
    config = TrainingConfig(base_model="demo", train_data="mine.jsonl", replay_share=0.0)
    values = config_to_dict(config)
    train = "python -m studio train --base_model demo --train_data mine.jsonl"
    for told, line in (
        (values, f"{train} --learning_rate 0.0007"),
        ({**values, "learning_rate": 3e-4}, f"{train} --learning_rate 0.0001"),
        (None, ""),
        ({"gone": 1}, ""),
    ):
        found = {"lost": ["long_form"], "unchecked": ["silence"], "why_unchecked": {"silence": "time"}}
        card = {"capabilities": found, "config": told}
        (folder / "model.json").write_text(json.dumps(card), encoding="utf-8")
        shown = run_studio("models", "show", "mine")
        assert shown.stdout.startswith("The base is better at: Long recordings. A gentler run forgets less")
        assert (
            "\nNot checked: No text on silence (out of time: a minute, or a tenth of the training).\n"
            in shown.stdout
        )
        assert ("Train it so: " in shown.stderr) is bool(line) and line in shown.stderr
        assert "--replay_share" not in shown.stderr, "the usual rehearsal, which the run had not"


def test_fit_answers_with_a_run_that_fits_in_words_and_in_bytes(run_studio: RunStudio) -> None:
    done = run_studio("fit", "--gpu", "RTX 3060", "--base_model", "large-v3", "--method", "lora")
    assert done.returncode == 0, done.stderr
    assert "Gradient checkpointing on" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("python -m studio train --base_model large-v3")
    row = json.loads(run_studio("fit", "--memory_gib", "12", "--json").stdout)
    assert row["fits"] and row["estimate"]["high_bytes"] <= row["budget_bytes"] == 12 * 2**30


def test_an_estimate_tells_the_largest_batch_and_the_cards(run_studio: RunStudio) -> None:
    options = ("estimate", "--base_model", "small", "--gpu", "RTX 3060")
    row = json.loads(run_studio(*options, "--cards", "--json").stdout)
    assert row["verdict"] == "fits" and row["largest_batch_size"] >= 8
    assert row["cards"]["H200"] == "fits" and row["cards"]["GeForce RTX 2060"] == "does_not_fit"
    spoken = run_studio(*options, "--inference", "--engine", "faster-whisper", "--precision", "int8")
    assert "the largest batch that fits is" in spoken.stdout


def test_an_estimate_is_held_against_a_trace(run_studio: RunStudio) -> None:
    options = ("estimate", "--base_model", "tiny", "--trace")
    row = json.loads(run_studio(*options, "--json").stdout)
    formulas = max(row["phases"].values())
    assert abs(formulas / row["trace"]["peak_bytes"] - 1) < 0.02
    assert "% off" in run_studio(*options).stdout


def test_presets_stand_beside_what_guides_say(run_studio: RunStudio) -> None:
    shown = run_studio("fit", "--presets")
    assert shown.returncode == 0 and "breeze" in shown.stdout and "75 %" in shown.stdout
    claims = json.loads(run_studio("fit", "--claims", "--json").stdout)
    assert len(claims) == 9


def test_an_error_is_explained_from_a_file(run_studio: RunStudio, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 8.00 GiB total capacity; 6.00 GiB already "
        "allocated; 1.00 GiB free; 6.20 GiB reserved in total by PyTorch)",
        encoding="utf-8",
    )
    done = run_studio("explain-oom", log, "--base_model", "small", "--method", "full")
    assert done.returncode == 0, done.stderr
    assert "1.00 GiB of its 8.00 GiB were free" in done.stdout
    assert "python -m studio train" in done.stdout.splitlines()[-1]


def test_a_measurement_that_has_no_room_is_refused_and_nothing_is_kept(run_studio: RunStudio) -> None:
    if detected_gpus():
        pytest.skip("this machine has a GPU")
    large = ("--base_model", "large-v3", "--method", "full", "--per_device_train_batch_size", "64")
    assert_refused(run_studio("probe", *large), "There is no GPU here", "GiB")
    assert run_studio("probe", "--list").stdout == "Nothing was measured yet.\n"


def test_the_doctor_looks_at_this_machine(run_process: RunStudio, run_studio: RunStudio) -> None:
    row = json.loads(run_process("doctor", "--json").stdout)
    assert {"Python", "Disk", "Reading audio", "Model hub"} <= {check["name"] for check in row["checks"]}
    assert row["versions"]["torch"]
    assert re.search(r"^ok +Python ", run_studio("doctor").stdout, re.MULTILINE)


def test_ctrl_c_shows_what_was_heard_until_then_and_keeps_the_recordings_before(
    environ: dict[str, str], studio_home: Path, demo_speech: Path, popen: Popen, tmp_path: Path
) -> None:
    samples = demo_speech / "samples"
    long = tmp_path / "long.flac"
    soundfile.write(long, np.tile(read_audio(samples / "long.ogg"), 2), 16_000)
    words = ("transcribe", samples / "kitchen-light.flac", long, "--output_file", "heard.json")
    shown, terminal = os.openpty()  # a file is told how far it is every ten seconds only
    with command(words, environ, studio_home, tmp_path, stderr=terminal, **forked_server(popen)) as process:
        os.close(terminal)
        told = ""
        while "long.flac: " not in told:
            told += os.read(shown, 4096).decode()
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=120)
    told += os.read(shown, 4096).decode()
    os.close(shown)
    assert process.returncode == 130 and "Traceback" not in told
    assert re.search(r"long\.flac was transcribed up to .+ s; its text so far:", told)
    assert "kitchen" in text and "thursday" in text.lower(), "of the recording before, and of this one"
    rows = json.loads((tmp_path / "heard.json").read_text("utf-8"))
    assert [Path(row["audio_path"]).name for row in rows] == ["kitchen-light.flac"]


def test_several_starts_by_torchrun_are_one_run(run_studio: RunStudio, studio_home: Path) -> None:
    pair = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}
    second = run_studio("train", "--no_wait", extra={**pair, "RANK": "1", "LOCAL_RANK": "1"})
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    assert_no_run_was_made(studio_home)
    first = run_studio("train", "--no_wait", extra=pair)
    assert first.returncode == 0 and "A launcher has started 2 processes: they are one run" in first.stderr
    (run,) = (studio_home / "runs").iterdir()
    assert json.loads((run / "config.json").read_text(encoding="utf-8"))["num_processes"] == 2
    elsewhere = {**pair, "WORLD_SIZE": "4"}
    assert_refused(run_studio("train", extra=elsewhere), "several machines", "--num_machines")


def test_who_names_no_data_is_told_what_the_run_learns_from(run_studio: RunStudio, tmp_path: Path) -> None:
    said = "The run learns from the demo speech: give --train_data"
    bare = run_studio("train", "--learning_rate", "1e-4", "--print_command")
    assert said in bare.stderr and "dataset" not in bare.stderr
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset" / "train.json").write_text("[]", encoding="utf-8")
    assert "--train_data dataset/train.json" in run_studio("train", "--print_command").stderr
    (tmp_path / "dataset" / "test.json").write_text("[]", encoding="utf-8")
    taken = run_studio("train", "--base_model", "demo", "--use_adalora", "--write_slurm", "job.sh")
    assert (
        "learns from dataset/train.json and is tested on dataset/test.json, as none is named" in taken.stderr
    )
    job = (tmp_path / "job.sh").read_text(encoding="utf-8")
    assert all(f"{tmp_path}/dataset/{part}.json" in job for part in ("train", "test"))
    for words in (["--train_data", "demo"], ["--train_file", "a.json"], ["--dataset_name", "a/b"]):
        assert said not in run_studio("train", *words, "--print_command").stderr


def test_who_names_no_base_is_told_which_is_trained(run_studio: RunStudio) -> None:
    said = "No base model is named, so the small demo model is trained: give --base_model"
    assert said in run_studio("train", "--train_data", "a.json", "--print_command").stderr
    for name in ("base_model", "model_name_or_path"):
        assert said not in run_studio("train", f"--{name}", "demo", "--print_command").stderr


@pytest.mark.parametrize("when", ["--no_wait", "--print_command"])
def test_a_tracker_that_is_not_installed_is_said_before_anything_is_fetched(
    run_studio: RunStudio, studio_home: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    monkeypatch.setitem(sys.modules, "trackio", None)
    what = ["--base_model", "large-v3", "--train_data", "nobody/has-this", "--report_to", "trackio"]
    done = run_studio("train", *what, when)
    assert_refused(done, "report_to trackio needs the package trackio", "pip install trackio")
    assert_no_run_was_made(studio_home)


def test_a_checkpoint_is_never_passed_over(run_studio: RunStudio, studio_home: Path) -> None:
    flag = "--resume_from_checkpoint"
    asked = ["train", "--base_model", "demo", "--train_data", "demo", "--no_wait"]
    for path in ("output/checkpoint-100", "checkpoint-100"):
        refused = run_studio(*asked, f"{flag}={path}")
        assert_refused(refused, f"{flag} {path} is not done here", "--resume", "runs resume ID", "--adapter")
    own = studio_home / "runs" / "mine" / "checkpoints" / "checkpoint-100"
    assert_refused(run_studio(*asked, flag, str(own)), "python -m studio runs resume mine")
    assert_no_run_was_made(studio_home)
    new = "No unfinished run matches: a new one begins."
    for words in (["--resume"], [flag], [f"{flag}=True"], [flag, "true"]):
        done = run_studio(*asked, *words, "--run_name", "none")
        assert done.returncode == 0 and new in done.stderr, done.stderr
        run_studio("runs", "delete", done.stdout.strip(), "--yes")
    for words in ([f"{flag}="], [f"{flag}=None"], [flag, "False"]):
        done = run_studio(*asked, *words)
        assert done.returncode == 0 and not done.stderr.startswith("No"), done.stderr


def test_a_run_goes_on_only_with_the_options_that_it_has(run_studio: RunStudio, studio_home: Path) -> None:
    asked = ["train", "--base_model", "demo", "--train_data", "demo", "--learning_rate", "1e-3", "--no_wait"]
    run_id = run_studio(*asked).stdout.strip()
    assert run_studio("runs", "stop", run_id).returncode == 0
    for words in (["--method", "full"], ["--run_name", "other"], ["--train_data", "demo,demo"]):
        other = run_studio(*asked, "--resume", *words)
        assert other.returncode == 0 and "a new one begins" in other.stderr, other.stderr
        run_studio("runs", "delete", other.stdout.strip(), "--yes")
    refused = run_studio(*asked, "--resume", "--num_train_epochs", "9", "--learning_rate", "2e-3")
    assert_refused(refused, f"Run {run_id} has learning_rate 0.001, num_train_epochs 4.0", "start a new run")


def test_a_command_of_whisper_finetune_s_evaluation_is_understood(run_studio: RunStudio) -> None:
    common = ["evaluate", "--model_path", "demo", "--test_data", "demo", "--max_samples", "3", "--json"]
    switches = ["--remove_pun=True", "--to_simple=True", "--timestamps=True", "--local_files_only=True"]
    done = run_studio(*common, "--metric=cer", "--batch_size=16", "--num_workers=8", *switches)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["models"][0]["normalizer"] == "chinese"
    said = [line for line in done.stderr.splitlines() if line.startswith(("--", "Texts"))]
    assert [line.split()[0] for line in said] == ["--batch_size", "--num_workers", "--timestamps", "Texts"]
    advice = "--remove_pun --to_simple do what"
    assert advice in run_studio(*common, "--metric", "wer").stderr
    plain = run_studio(*common, "--remove_pun=False", "--to_simple=False", "--metric=wer")
    assert plain.returncode == 0 and advice not in plain.stderr

    seconds = sorted(clip.duration_seconds or 0 for clip in read_manifest("demo:test", max_rows=3).examples)
    kept = json.loads(run_studio(*common, "--max_audio_len", str(seconds[1])).stdout)
    assert kept["models"][0]["n"] == 2
    refused = run_studio(*common, "--min_audio_len", "29")
    assert_refused(refused, "demo has 3 clips, and none lasts 29 seconds or more")
    assert_refused(run_studio(*common, "--to_simple"), "--to_simple goes with --remove_pun")
    assert_refused(run_studio(*common, "--remove_pun", "--normalizer", "basic"), "--remove_pun")


def test_an_evaluation_is_told_kept_corrected_and_told_again(
    run_studio: RunStudio, demo_speech: Path, noise: Path, tmp_path: Path
) -> None:
    """What is wrong, and files: the clips, corrected by hand, the report with its sounds, and all of it."""
    spoken = [{"path": str(demo_speech / "audio" / f"test-00{n}.ogg"), "text": "xylophone"} for n in (0, 1)]
    rows = [*spoken, {"path": str(noise), "text": "<|nospeech|>"}, {"path": "gone.wav", "text": "hello"}]
    (tmp_path / "list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    common = ["evaluate", "--models", "demo", "--errors", "--data"]
    first = run_studio(*common, "list.jsonl", "--output_file", "clips.csv")
    assert first.returncode == 0 and "Wrote clips.csv" in first.stderr, first.stderr
    assert re.search(r"^Left out: line 4: .*gone\.wav", first.stderr, re.MULTILINE), first.stderr
    for line in ("# demo", "words right: xylophone 0/2", "clips without speech: 1, text in 0, 0 words"):
        assert line in first.stdout.splitlines(), first.stdout
    clips = (tmp_path / "clips.csv").read_text("utf-8")
    assert [line.split(",")[6] for line in clips.splitlines()] == ["reference", "xylophone", "xylophone", ""]

    (tmp_path / "clips.csv").write_text(
        clips.replace("xylophone", "captain the scanner", 1), encoding="utf-8"
    )
    corrected = ["--corrections", "clips.csv", "--save_corrected", "new.jsonl", "--non_speech"]
    second = run_studio(*common, "list.jsonl", *corrected, "--output_file", "report.html", "--embed_audio")
    assert second.returncode == 0, second.stderr
    assert "1 of 3 references are corrected." in second.stderr and "Wrote new.jsonl" in second.stderr
    assert "Rows left out of it, because they cannot be used: 1." in second.stderr
    assert re.search(r"^demo: [\d,]+ words per hour of non-speech", second.stdout, re.MULTILINE)
    report = (tmp_path / "report.html").read_text("utf-8")
    assert report.count("data:audio/") == 3 and "xylophone 0/1" in second.stdout
    texts = [clip.text for clip in read_manifest(tmp_path / "new.jsonl").examples]
    assert texts == ["captain the scanner", "xylophone", ""]
    saved = [json.loads(line) for line in (tmp_path / "new.jsonl").read_text("utf-8").splitlines()]
    assert saved == [{**rows[0], "text": "captain the scanner"}, *rows[1:3]]

    third = run_studio(*common, "new.jsonl", "--output_file", "all.json", "--json")
    found = json.loads(third.stdout)
    assert found == json.loads((tmp_path / "all.json").read_text("utf-8"))
    assert [row["reference"] for row in found["utterances"]] == texts
    assert found["errors"][0]["silence"] == {"clips": 1, "with_text": 0, "words": 0}
    assert "transcribed" not in third.stderr, "the same clips are not heard again"


def test_an_evaluation_that_is_killed_goes_on_and_ends_as_an_unbroken_one(
    run_studio: RunStudio, environ: dict[str, str], studio_home: Path, popen: Popen, tmp_path: Path
) -> None:
    words = "evaluate --models demo --data demo --max_samples 17 --output_file all.json"
    asked = words.split()
    process = command(asked, environ, studio_home, tmp_path, **forked_server(popen))
    kept = studio_home / "cache" / "evaluations"
    while not any(b"\n" in path.read_bytes() for path in kept.glob("*.jsonl")):
        assert process.poll() is None, (tmp_path / "stderr").read_text("utf-8")
        time.sleep(0.02)
    process.kill()
    assert process.wait() == -signal.SIGKILL and not (tmp_path / "all.json").exists()
    rows = [
        json.loads(line) for path in kept.glob("*.jsonl") for line in path.read_text("utf-8").splitlines()
    ]
    found = []
    for before in (sum(len(row["clips"]) for row in rows), 0):
        done = run_studio(*asked)
        first = f"transcribed {min(17, before + 8)} of 17 clips"
        assert done.returncode == 0 and done.stderr.splitlines()[0] == first, done.stderr
        found.append(json.loads((tmp_path / "all.json").read_text("utf-8")))
    assert found[0]["utterances"] == found[1]["utterances"] and len(found[0]["utterances"]) == 17
    assert found[0]["models"][0]["wer"] == found[1]["models"][0]["wer"]


def test_forms_of_one_model_are_asked_for_by_name_and_answered_in_json(
    run_studio: RunStudio, studio_home: Path, tmp_path: Path
) -> None:
    (home,) = (ROOT / "tests" / "golden" / "homes").iterdir()
    shutil.copytree(home / "models" / "finished-ct2-int8", studio_home / "models" / "mine")
    asked = ["evaluate", "--models", "mine", "--data", "demo", "--max_samples", "2"]
    form = "faster-whisper:int8"
    done = run_studio(*asked, "--forms", form, "--json", "--output_file", "forms.json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == json.loads((tmp_path / "forms.json").read_text("utf-8"))
    (row,) = found["rows"]
    assert (row["name"], row["problem"], found["clips"]) == (form, None, 2) and row["cer"] is not None
    for more in (
        ["--errors"],
        ["--output_file", "a.html"],
        ["--engine", "transformers"],
        ["--audio_path", "a"],
    ):
        assert_refused(run_studio(*asked, "--forms", form, *more), "--forms")


def test_a_command_of_whisper_finetune_s_infer_is_understood(run_studio: RunStudio, noise: Path) -> None:
    words = "--model_path=demo --language=en --num_beams=1 --batch_size=0 --task=transcribe --use_gpu=False"
    switches = "--use_compile=True --use_flash_attention_2 --local_files_only --use_bettertransformer=False"
    done = run_studio("transcribe", f"--audio_path={noise}", *words.split(), *switches.split())
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("--")]
    assert [line.split()[0] for line in said] == ["--use_compile", "--use_flash_attention_2"]
    assert_refused(
        run_studio("transcribe", noise, "--model", "tiny", "--local_files_only"), "not on this disk"
    )
    plain = run_studio("transcribe", "--use_gpu", "0", noise)
    assert plain.returncode == 0 and "0" not in plain.stdout.split(), plain.stderr
    assert_refused(run_studio("transcribe", noise, "--use_gpu", "0", "--device", "cuda"), "contradict")
    swallowed = run_studio("transcribe", "--assistant_model_path", noise)
    assert_refused(swallowed, "transcribe needs a recording")
    assert f"--assistant_model_path {noise} has no effect here" in swallowed.stderr


def test_a_command_of_whisper_finetune_s_merge_makes_a_whole_model(
    run_studio: RunStudio, demo_model: Path, tmp_path: Path
) -> None:
    save_adapter(demo_model, tmp_path / "output" / "whisper-tiny" / "checkpoint-best", seed=2, strength=1.0)
    words = "--lora_model=output/whisper-tiny/checkpoint-best/ --output_dir=models/ --local_files_only=True"
    done = run_studio("export", *words.split(), "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["kind"] == "merged" and made["card"]["parity"][0]["equal"]
    assert (tmp_path / "models" / made["id"] / "model.safetensors").is_file()
    assert "Copied to models" in done.stderr and not [
        line for line in done.stderr.splitlines() if line.startswith("--")
    ]


def test_a_command_of_whisper_finetune_s_merge_is_understood(run_studio: RunStudio, tmp_path: Path) -> None:
    refused = run_studio("export", "--lora_model=demo", "--output_dir=models", "--local_files_only=True")
    assert_refused(refused, "only an adapter can be merged")
    gone = run_studio("export", "--lora_model=output/checkpoint-best")
    assert gone.returncode == 2 and "whole model" not in gone.stderr and "checkpoint-best" in gone.stderr
    assert_refused(run_studio("export", "demo", "--lora_model=demo"), "export takes one model")
    other = run_studio("export", "--lora_model=demo", "--format", "ctranslate2", "--output_dir=models")
    assert_refused(other, "leave out --format ctranslate2, or export demo --format ctranslate2")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("check-data g.csv --quarantine g.csv", "--quarantine"),
        ("check-data demo:test,./g.csv --html sub/../g.csv", "--html"),
        ("check-data demo:test --test_data g.csv --quarantine link.csv", "--quarantine"),
        ("check-data . --quarantine g.csv", "--quarantine"),
        ("evaluate --models demo --data g.csv --output_file g.csv", "--output_file"),
        ("evaluate --models demo --data demo --corrections g.csv --output_file g.csv", "--output_file"),
        ("evaluate --models demo --data g.csv --forms all --output_file link.csv", "--output_file"),
        ("train --train_data demo --test_data g.csv --base_model demo --write_slurm g.csv", "--write_slurm"),
        ("transcribe noise.wav --output_file noise.wav --overwrite", "--output_file"),
        ("transcribe --audio_list noise.txt --output_dir .", "--output_dir"),
    ],
)
def test_no_option_writes_over_what_is_read(
    run_studio: RunStudio, tmp_path: Path, noise: Path, words: str, option: str
) -> None:
    (tmp_path / "g.csv").write_text("audio,text\nnoise.wav,hello\n", encoding="utf-8")
    (tmp_path / "noise.txt").write_text("noise.wav\n", encoding="utf-8")
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.csv").symlink_to("g.csv")
    if " . " in words:
        (tmp_path / "link.csv").unlink()
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert_refused(run_studio(*words.split()), "is read here", f"{option} would replace it")
    assert {path: path.read_bytes() for path in before} == before


def test_two_results_of_one_name_are_refused(run_studio: RunStudio, tmp_path: Path) -> None:
    answer = run_studio("check-data", "demo:test", "--quarantine", "report", "--html", "./report")
    assert_refused(answer, "--quarantine and --html name one file")
    assert list(tmp_path.iterdir()) == []


def test_captions_that_others_would_replace_are_put_aside(
    run_studio: RunStudio, tmp_path: Path, noise: Path
) -> None:
    other = tmp_path / "other" / noise.name
    other.parent.mkdir()
    shutil.copy(DEMO_SPEECH / "samples" / "kitchen-light.flac", other)
    for path in (noise, other, other):
        done = run_studio("transcribe", str(path), "--format", "txt", "--output_dir", "captions")
        assert done.returncode == 0, done.stderr
    text, kept = (tmp_path / "captions" / f"{noise.stem}.{ending}" for ending in ("txt", "txt~"))
    assert "kitchen" in text.read_text(encoding="utf-8") and "kitchen" not in kept.read_text(encoding="utf-8")
    assert len(list(text.parent.iterdir())) == 2, "the same text is no reason to keep it twice"
    text.write_text("mine", encoding="utf-8")
    assert run_studio("transcribe", str(noise), "--format", "txt", "--output_dir", "captions").returncode == 0
    second = text.with_suffix(".txt~2")
    assert second.read_text(encoding="utf-8") == "mine", "what was put aside before stays"
    again = ("transcribe", str(other), "--format", "txt", "--output_dir", "captions", "--overwrite")
    assert "is in" not in run_studio(*again).stderr
    assert "kitchen" in text.read_text(encoding="utf-8") and "kitchen" not in kept.read_text(encoding="utf-8")


def test_a_result_may_lie_beside_what_is_read_and_be_written_anew(
    run_studio: RunStudio, tmp_path: Path, noise: Path
) -> None:
    rows = json.dumps({"audio_path": str(noise), "text": "hello"})
    (tmp_path / "metadata.jsonl").write_text(rows + "\n", encoding="utf-8")
    for _ in range(2):
        done = run_studio("check-data", ".", "--html", "report.html", "--quarantine", "bad.jsonl")
        assert done.returncode == 0, done.stderr
        done = run_studio("transcribe", "--audio_list", ".", "--output_file", "heard.json")
        assert done.returncode == 0, done.stderr
    assert "1 of 1 recording is done already." in done.stderr
    done = run_studio("transcribe", "--audio_list", ".", "--output_file", "heard.json", "--language", "en")
    assert "they have changed since: 1 of 1 recording." in done.stderr


def test_only_a_script_for_slurm_is_replaced_by_one(run_studio: RunStudio, tmp_path: Path) -> None:
    words = ("train", "--train_data", "demo", "--base_model", "demo", "--write_slurm", "job.sh")
    for _ in range(2):
        assert run_studio(*words).returncode == 0
    (tmp_path / "job.sh").write_text("#!/bin/bash\necho mine\n", encoding="utf-8")
    assert_refused(run_studio(*words), "job.sh is there already, and is no script for Slurm")
    assert "mine" in (tmp_path / "job.sh").read_text(encoding="utf-8")
