"""Any value in any place of what is read: hypothesis looks for one that is not a sentence, or an answer.

Where `tests/benchmarks/slow/fuzz.py` spoils bytes, these files are well formed, and mean nonsense. The suite
tries a few, always the same; `pytest --hypothesis-profile=thorough` tries thousands, others each time.
"""

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from studio.cli import evaluate, train
from studio.cli.follow import as_dict
from studio.cli.parsing import run_options
from studio.dataset.cards import require_own_files
from studio.dataset.recordings import begin_session, open_session, sessions
from studio.errors import StudioError
from studio.memory.oom import explain
from studio.options.arguments import config_from_dict, config_to_dict, training_flags
from studio.options.training import TrainingConfig
from studio.registry.store import ModelRegistry
from studio.runs.history import Histories
from studio.runs.view import view
from studio.settings import Settings
from studio.training.run_dir import RunDir
from studio.transcription.results import ResultsFile
from studio.ui.shared.links import linked_values
from studio.ui.shared.views import model_details
from studio.ui.train.run_views import run_findings, run_status
from tests.golden.conftest import HOMES
from tests.reading import augmentation_of, read_manifest
from tests.unit.cli.test_clips import WHOLE
from tests.unit.registry.conftest import SMALL, make_adapter, make_whisper

(HOME,) = HOMES.iterdir()
"""As an earlier version left it."""
WORDS = st.text(max_size=30).filter(lambda text: text == "".join(text.splitlines())) | st.sampled_from(
    (
        "",
        " ",
        "nan",
        "-1",
        "1e999",
        "10" * 200,
        "/",
        "../..",
        "~nobody/x",
        "a\x00b",
        "\u202eabc",
        "\ud800",
        "é" * 300,
    )
)
NUMBERS = st.integers() | st.floats() | st.sampled_from((10**400, -(2**63), 0, -1, 1e308))
PLAIN = st.none() | st.booleans() | NUMBERS | WORDS
ANYTHING = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=8
)


@st.composite
def spoiled(draw: st.DrawFn, *originals: Any) -> Any:
    """One of them with up to three places that hold anything, or are gone."""
    value = copy.deepcopy(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(1, 3))):
        places = list(places_in(value))
        if not places:
            break
        inside, key = draw(st.sampled_from(places))
        if isinstance(inside, dict) and draw(st.booleans()):
            del inside[key]
        else:
            inside[key] = draw(ANYTHING)
    return value


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a value that could hold another one."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places_in(value[key])


def written(path: Path, value: Any) -> Path:
    """As JSON, which can say more than Unicode can."""
    path.write_text(json.dumps(value), encoding="ascii")
    return path


def answered(read: Callable[[], object]) -> None:
    """Reads, or is refused in one sentence."""
    try:
        read()
    except StudioError as error:
        assert str(error).strip() and "\n" not in str(error).strip()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a clip, and room for files."""
    made = tmp_path_factory.mktemp("values")
    soundfile.write(made / "a.wav", np.zeros(48_000), 16_000)
    return made


ROWS = (
    {"audio": {"path": "a.wav"}, "sentence": "Hello", "language": "en", "duration": 3.0},
    {"audio_filepath": "a.wav", "text": "Hello", "offset": 0.5, "duration": 1.0, "speaker": "x"},
    {
        "audio": "a.wav",
        "sentences": [{"start": 0.0, "end": 1.5, "text": "Hel"}, {"start": 1.5, "end": 3.0, "text": "lo"}],
    },
    {"audio": "a.wav", "begin_time": 0.0, "end_time": 2.0, "text": "Hello", "id": 7},
    {
        "id": "cut",
        "start": 0.0,
        "duration": 2.0,
        "channel": 0,
        "supervisions": [{"text": "Hello", "start": 0.0}],
        "recording": {
            "id": "r",
            "sampling_rate": 16_000,
            "num_samples": 48_000,
            "duration": 3.0,
            "sources": [{"type": "file", "channels": [0], "source": "a.wav"}],
        },
    },
)


@given(rows=st.lists(spoiled(*ROWS), min_size=1, max_size=3))
def test_rows_of_a_list(folder: Path, rows: list[Any]) -> None:
    answered(lambda: read_manifest(written(folder / "list.json", rows)))


TIMED = {
    "srt": ["1", "\n", "00:00:01,000", " --> ", "00:00:02,500", "\n", "one", "\n\n"],
    "vtt": ["WEBVTT", "\n\n", "00:01.000", " --> ", "00:02.500", "\n", "<v Ann>one", "\n"],
    "TextGrid": ['"IntervalTier" ', '"words" ', "0 ", "3 ", "1 ", "0.5 ", "2.5 ", '"one"'],
    "stm": ["a", " 1 ", "ann ", "0.5 ", "2.5 ", "<o> ", "one", "\n"],
    "lab": ["0.500000", "\t", "2.500000", "\t", "one", "\n"],
    "wav.trn": ["one", "\n", "wan1"],
    "eaf": [
        '<a><TIME_SLOT TIME_SLOT_ID="x" TIME_VALUE="',
        "500",
        '"/><TIME_SLOT TIME_SLOT_ID="y" TIME_VALUE="',
        "2500",
        '"/><TIER><ALIGNABLE_ANNOTATION TIME_SLOT_REF1="x" TIME_SLOT_REF2="y"><ANNOTATION_VALUE>',
        "one",
        "</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></TIER></a>",
    ],
}


@given(data=st.data(), ending=st.sampled_from(list(TIMED)), encoding=st.sampled_from(("utf-8", "utf-16")))
def test_texts_and_times_beside_a_sound(
    folder: Path, data: st.DataObject, ending: str, encoding: str
) -> None:
    place = folder / ending
    place.mkdir(exist_ok=True)
    shutil.copy(folder / "a.wav", place)
    pieces = "".join(map(str, data.draw(spoiled(TIMED[ending]))))
    (place / f"a.{ending}").write_text(pieces, encoding, "replace")
    lines = data.draw(spoiled(["a", "\t", "one", "\n", "x/a.wav", "|", "two"]))
    (place / "text").write_text("".join(map(str, lines)), encoding, "replace")
    answered(lambda: read_manifest(place))


@given(values=spoiled(config_to_dict(TrainingConfig(train_data="a.jsonl", target_modules=("q_proj",)))))
def test_settings(values: dict[str, Any]) -> None:
    answered(lambda: config_from_dict(values))


@given(words=st.lists(st.sampled_from([f"--{name}" for name in training_flags()]) | WORDS, max_size=6))
def test_words_of_a_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        answered(lambda: run_options(train.parser().read_known(words)[1]))
    except SystemExit as error:
        assert error.code in (0, 2)
    finally:
        capsys.readouterr()


PIECES = (
    *("CUDA out of memory. Tried to allocate ", "20.00 MiB", "GPU 0 has a total capacity of ", "23.64 GiB"),
    *(" of which ", " is free", "(GPU 0; ", " already allocated; ", "oom-kill", "\n", "1e999 GiB", "-0 MiB"),
)


@given(pieces=st.lists(st.sampled_from(PIECES) | WORDS, max_size=12))
def test_errors_of_memory(pieces: list[str]) -> None:
    answered(lambda: explain("".join(pieces)))


ASKED = {
    "base_model": "small",
    "method": "lora",
    "gpu": "RTX 4090",
    "lora_r": "8",
    "section": "fit",
    "use": "train",
}


@given(query=st.dictionaries(st.sampled_from([*ASKED, "num_beams", "x"]), WORDS | NUMBERS.map(str)))
def test_links(query: dict[str, str]) -> None:
    answered(lambda: linked_values({**ASKED, **query}))


RESULTS = ({"audio_path": "a.wav", "text": "one", "model": "demo"}, {"audio_path": "b.wav", "error": "none"})


@given(rows=spoiled(list(RESULTS), {"rows": list(RESULTS)}))
def test_results_that_are_gone_on_with(folder: Path, rows: Any) -> None:
    path = written(folder / "results.json", rows)
    sounds = [Path("a.wav"), Path("b.wav")]
    answered(lambda: ResultsFile(path, sounds, "demo", overwrite=False))


@given(found=spoiled(json.loads(json.dumps(WHOLE.to_json()))))
def test_an_evaluation_that_is_looked_into(
    folder: Path, found: Any, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(written(folder / "evaluation.json", found))
    for words in ("--errors", "--sort unsure --show lost", "--json --group speaker=P"):
        answered(partial(evaluate.run, ["--result", path, *words.split()], settings))
    capsys.readouterr()


STEPS = (
    {"type": "speed", "params": {"min_speed_rate": 0.9, "max_speed_rate": 1.1, "num_rates": 3}, "prob": 1.0},
    {"type": "volume", "params": {"min_gain_dBFS": -15, "max_gain_dBFS": 15}, "prob": 1.0},
    {"type": "resample", "params": {"new_sample_rates": [8000, 32000]}, "prob": 1.0},
    {"type": "noise", "params": {"min_snr_dB": 10, "max_snr_dB": 50, "noise_dir": "none"}, "prob": 1.0},
)


@given(steps=spoiled(list(STEPS), *([step] for step in STEPS)))
def test_an_augmentation_that_changes_clips(folder: Path, steps: Any) -> None:
    config = TrainingConfig(augment_config_path=str(written(folder / "augmentation.json", steps)))

    def changed() -> None:
        augmentation = augmentation_of(config)
        drawn = augmentation.draw(epoch=0, number=0, seconds=1.0)
        assert np.isfinite(augmentation.change(np.ones(1600, np.float32) / 9, drawn)).all()

    answered(changed)


@given(values=spoiled({"name": "list", "language": "en", "speaker": "", "sentences": ["one", "two"]}))
def test_a_list_of_sentences_and_its_clips(folder: Path, values: Any) -> None:
    session = folder / "recordings" / "list"
    session.mkdir(parents=True, exist_ok=True)
    written(session / "session.json", values)
    answered(lambda: open_session(folder / "recordings", "list"))
    assert len(sessions(folder / "recordings")) <= 1


@given(row=spoiled({"audio": "clips/0001.flac", "sentence": "one", "duration": 2.0, "number": 0}))
def test_a_clip_of_a_list_of_sentences(folder: Path, row: Any) -> None:
    root = folder / "more"
    if not root.exists():
        begin_session(root, "list", "one\ntwo")
    (root / "list" / "metadata.jsonl").write_text(json.dumps(row) + "\n", "ascii")
    answered(lambda: open_session(root, "list"))


CARD = {"configs": [{"config_name": "default", "data_files": [{"split": "train", "path": "data/*.parquet"}]}]}


@given(card=spoiled(CARD, {**CARD, "dataset_info": {"features": [{"name": "audio", "dtype": "audio"}]}}))
def test_the_card_of_a_data_set(folder: Path, card: Any) -> None:
    path = folder / "README.md"
    path.write_text(f"---\n{json.dumps(card)}\n---\n", "ascii")  # which is YAML as well

    def read() -> None:
        with suppress(ValueError):  # what cannot be read is named by whoever reads it
            require_own_files(path, "card")

    answered(read)


MODEL = {
    "config.json": {"model_type": "whisper", **SMALL.__dict__},
    "preprocessor_config.json": {"feature_size": SMALL.num_mel_bins},
    "generation_config.json": {
        "is_multilingual": True,
        "lang_to_id": {"<|en|>": 3},
        "alignment_heads": [[0, 1]],
    },
    "model.json": json.loads((HOME / "models" / "finished" / "model.json").read_text("utf-8")),
}


@given(data=st.data(), name=st.sampled_from(list(MODEL)))
def test_files_of_a_model(tmp_path: Path, data: st.DataObject, name: str) -> None:
    models = tmp_path / "models"
    shutil.rmtree(models, ignore_errors=True)
    mine = make_whisper(models / "mine", card=MODEL["model.json"])
    written(mine / name, data.draw(spoiled(MODEL[name], {"": None})))
    tuned = make_adapter(models / "tuned", "mine")
    told = json.loads((tuned / "adapter_config.json").read_text("utf-8"))
    written(tuned / "adapter_config.json", data.draw(spoiled(told)))
    for spec in ModelRegistry(models, demo=None, hf_cache=None).all():
        model_details(spec, "zh-TW")


RUN_FILES = ("config.json", "run.json", "result.json", "process.json", "events.jsonl")


@given(data=st.data(), name=st.sampled_from(RUN_FILES))
def test_files_of_a_run(tmp_path: Path, data: st.DataObject, name: str) -> None:
    (old,) = HOME.glob("runs/finished-*")
    run = tmp_path / "runs" / old.name
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(old, run, ignore=shutil.ignore_patterns("checkpoints"))
    lines = (
        [json.loads(line) for line in (old / name).read_text("utf-8").splitlines()]
        if name[-1] == "l"
        else None
    )
    value = data.draw(spoiled(lines or json.loads((old / name).read_text("utf-8"))))
    if lines and isinstance(value, list):
        (run / name).write_text("".join(json.dumps(line) + "\n" for line in value), "ascii")
    else:
        written(run / name, value)
    status = view(RunDir(run), Histories().read(run / "events.jsonl"))
    json.dumps(as_dict(status, RunDir(run)))
    run_status(status, "zh-CN")
    run_findings(status, "zh-CN")
