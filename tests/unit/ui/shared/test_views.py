"""What visitors see of models, memory, runs, transcripts and evaluations."""

import base64
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from studio.cli import follow
from studio.dataset.example import Example, Manifest, RowProblem, place_of
from studio.evaluation.result import worth_of
from studio.evaluation.side_by_side import side_by_side
from studio.evaluation.suspicious import HeardLabel
from studio.files import write_json
from studio.memory.plan import Part, TrainingPlan
from studio.memory.training import estimate_training
from studio.messages import Joined, Message, message_to_plain
from studio.options.arguments import config_to_dict
from studio.options.training import TrainingConfig
from studio.publishing.findings import CHECK_NAMES
from studio.publishing.formats import FORMS
from studio.registry.catalog import RELEASED, find_released
from studio.registry.spec import ModelDimensions, ModelKind, ModelSource, ModelSpec
from studio.registry.store import ModelRegistry
from studio.reports import data_views, evaluation_views
from studio.reports.data_report import labels_table
from studio.reports.markup import Html
from studio.runs.history import Histories
from studio.runs.status import EvalPoint, JobState, RunStatus
from studio.runs.view import view
from studio.settings import DEMO_MODEL
from studio.training.events import EventLog, RunPhase
from studio.training.outcome import Outcome
from studio.training.retry import OUT_OF_MEMORY, Shortage, nothing_left
from studio.training.run_dir import RunDir
from studio.transcription.engine import Segment, Transcript, Word
from studio.translation import tr
from studio.ui.shared import transcript_views, views
from studio.ui.train import run_views
from tests.unit.registry.conftest import make_whisper

EVIL = "<img src=x onerror=alert(1)>${alert(2)}"


def text_of(markup: str) -> str:
    """Markup without its tags, white space collapsed."""
    return " ".join(re.sub(r"<[^>]+>", " ", markup).split())


def spec(**values: Any) -> ModelSpec:
    given = {"id": "mine", "title": "mine", "kind": ModelKind.ADAPTER, "source": ModelSource.TRAINED}
    return ModelSpec(**{**given, **values})


def run(state: JobState = JobState.RUNNING, **values: Any) -> RunStatus:
    return RunStatus("run-1", state, TrainingConfig(run_name=values.pop("name", "")), **values)


@pytest.fixture
def in_taipei(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Asia/Taipei")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_taipei")
def test_times_are_those_of_the_machine() -> None:
    made, shown = "2026-11-28T20:34:04+00:00", "2026-11-29 04:34"
    assert shown in views.model_details(spec(created=made), "en")
    assert shown in run_views.history_table([run(created=made)], 1, "", "en")
    assert "by hand" in views.model_details(spec(created="by hand"), "en")


def test_rows_that_a_run_does_not_use_have_their_reasons_in_the_visitors_language() -> None:
    told = message_to_plain(Message("The clip is silent, but it has a text."))
    earlier = {"line": 1, "reason": told.pop("text")}
    data = {"skipped": [earlier, {**earlier, "line": 2, **told}], "skipped_count": 2}
    assert "1 The clip is silent, but it has a text. 2 片段是靜音，卻有文字。" in shown_run(
        locale="zh-TW", data=data
    )


def shown_run(state: JobState = JobState.RUNNING, locale: str = "en", **values: Any) -> str:
    return text_of(run_views.run_status(run(state, **values), locale))


def shown_words(*words: Word, text: str = "hi") -> str:
    return transcript_views.segment_list([Segment(0.0, 1.0, text, words)], None, "en")


def test_all_that_is_counted_and_listed_has_a_name() -> None:
    assert set(views.PART_NAMES) == {str(part) for part in Part}
    assert {form.kind for form in FORMS} == set(ModelKind) and set(views.SOURCE_NAMES) == set(ModelSource)
    assert set(views.DIMENSION_NAMES) == set(ModelDimensions.__dataclass_fields__)
    assert set(run_views.STATE_NAMES) == set(JobState)
    assert set(run_views.PHASE_NAMES) == {"", *(str(phase) for phase in RunPhase)}


def test_the_demo_model_is_called_the_same_to_those_who_see_it_and_to_those_who_hear_it() -> None:
    shown = views.models_table([spec(id="demo", title="Demo model", source=ModelSource.DEMO)], "zh-CN")
    assert ">演示模型<" in shown and 'aria-label="演示模型 (demo)"' in shown


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"base_model": "demo"}, "Adapter"),
        ({"base_model": "demo", "kind": ModelKind.BASE}, "Fine-tuned model"),
        ({"kind": ModelKind.BASE}, "Base model"),
        ({"base_model": "demo", "kind": ModelKind.MERGED}, "Merged into its base"),
    ],
)
def test_what_was_trained_without_an_adapter_is_not_called_a_base(values: dict[str, Any], kind: str) -> None:
    shown = spec(**values)
    assert f"Kind {kind} " in text_of(views.model_details(shown, "en"))
    assert f" {kind} " in text_of(views.models_table([shown], "en"))


@pytest.mark.parametrize(
    ("verdict", "words"),
    [("fits", "Fits on T4"), ("tight", "Tight on T4"), ("does_not_fit", "Does not fit on T4")],
)
def test_the_verdict_comes_first_and_with_its_range(verdict: str, words: str) -> None:
    found = estimate_training(TrainingPlan(), RELEASED[0].dimensions)
    estimate = replace(found, low_bytes=8 * 2**30, device_bytes=9 * 2**30, high_bytes=10 * 2**30)
    shown = text_of(views.memory_verdict(verdict, "T4", 15 * 2**30, estimate, Message("What helps."), "en"))
    assert ("What helps." in shown) == (verdict != "fits")
    assert shown.startswith(f"{words} about 9.00 GiB, between 8.00 GiB and 10.0 GiB")


def test_the_memory_table_adds_up_and_shows_formulas() -> None:
    sizes, formulas = {"gradients": 2**30, "overhead": 2**30}, {"gradients": Message("2 × 3 B")}
    shown = text_of(views.memory_table(sizes, formulas, "en"))
    assert "Gradients 1.00 GiB 2 × 3 B" in shown and "Total 2.00 GiB" in shown


def test_a_released_model_has_one_name_wherever_it_is_named() -> None:
    small = "openai/whisper-small"
    tuned, started = spec(base_model=small), replace(run(), config=TrainingConfig(base_model=small))
    heard = Transcript("hi", (), "en", 10.0, small, "hf")
    for shown in (
        transcript_views.transcript_facts(heard, "en"),
        run_views.history_table([started], 1, "", "en"),
        views.models_table([tuned], "en"),
        views.model_details(tuned, "en"),
    ):
        assert "Whisper small" in text_of(shown) and small not in shown
    assert views.known_name("small", "en") == "small", "a model of one's own may be called so"


def test_a_model_that_was_renamed_is_called_as_it_is_now(tmp_path: Path) -> None:
    registry = ModelRegistry(tmp_path / "models", demo=DEMO_MODEL, hf_cache=tmp_path / "hub")
    make_whisper(registry.models / "mine")
    registry.rename("mine", "普通话")
    names = views.model_names(registry, "en")
    assert (names("mine"), names("gone"), names("demo")) == ("普通话", "gone", "Demo model")


def test_a_broken_model_is_listed_with_what_is_wrong() -> None:
    shown = text_of(views.models_table([spec(problem=Message("config.json is missing"))], "en"))
    assert "Broken" in shown and "config.json is missing" in shown


def test_the_details_of_a_model_are_its_card_dimensions_and_folder() -> None:
    card = {"schema_version": 1, "metrics": {"final": {"wer": 0.125}}, "note": EVIL}
    shown = views.model_details(spec(card=card, path=Path("/models/mine"), base_model="demo"), "en")
    assert "metrics.final.wer 0.125" in text_of(shown) and "/models/mine" in text_of(shown)
    assert "<img src=x" not in shown


def test_the_details_of_a_model_list_what_was_made_of_it_with_its_proof() -> None:
    proof = {"clips": 3, "tokens": 30, "different_tokens": 2}
    cards = [
        {"parity": [proof, {**proof, "different_tokens": 0}], "quantization": "int8"},
        {"parity": [proof]},
    ]
    cards += [{"parity": wrong, "quantization": wrong} for wrong in (EVIL, [EVIL], [{"clips": EVIL}], [], 7)]
    made = [spec(id=f"made-{place}", card=card) for place, card in enumerate(cards)]
    shown = views.model_details(spec(), "zh-TW", exports=made)
    assert "匯出的模型" in text_of(shown) and "<img src=x" not in shown
    assert "輸出相同（3 個片段）" in shown and "30 個詞元中有 2 個不同（3 個片段）" in shown
    assert all(row.id in shown for row in made)


@pytest.mark.parametrize(
    ("hub_id", "locale", "said"),
    [
        ("KBLab/kb-whisper-small", "en", ["Swedish. ", "Languages Swedish"]),
        ("NbAiLab/nb-whisper-tiny", "en", ["Languages Norwegian, Nynorsk, English"]),
        ("ivrit-ai/whisper-large-v3", "zh-CN", ["希伯来语：请指定语言", "语言 希伯来语"]),
        ("MediaTek-Research/Breeze-ASR-26", "zh-TW", ["台語", "語言 中文"]),
        ("openai/whisper-tiny.en", "en", ["Languages English only"]),
        ("openai/whisper-small", "en", ["A good base for one language.", "Languages many"]),
    ],
)
def test_a_released_model_tells_its_languages_and_what_it_is_good_for(
    hub_id: str, locale: str, said: list[str]
) -> None:
    released = find_released(hub_id)
    assert released is not None
    shown = text_of(views.model_details(released.to_spec(), locale))
    assert all(words in shown for words in said), shown


def test_the_list_of_models_has_the_errors_that_a_card_tells() -> None:
    trained = spec(card={"metrics": {"base": {"wer": 0.8}, "final": {"wer": 0.125}}})
    chinese = spec(card={"metrics": {"metric": "cer", "final": {"wer": 1.0, "cer": 0.25}}})
    rates = [views.error_rate_of(model) for model in (trained, chinese, spec(), spec(card={"metrics": 3}))]
    assert rates == ["12.5 % WER", "25.0 % CER", "", ""]


def test_models_on_this_disk_come_first_and_adapters_name_their_base() -> None:
    released = {"kind": ModelKind.BASE, "source": ModelSource.RELEASED}
    far = spec(id="openai/whisper-tiny", title="Whisper tiny", **released)
    near = spec(path=Path("/m"), base_model="demo")
    assert views.model_choices([far, near], "en") == [
        ("mine (adapter of Demo model)", "mine"),
        ("Whisper tiny (download)", "openai/whisper-tiny"),
    ]
    (own,) = views.model_choices([spec(path=Path("/m"), base_model="/data/models/whisper-tiny")], "en")
    assert own == ("mine (adapter of whisper-tiny)", "mine")
    assert views.model_choices([near], "zh-TW") == [("mine（示範模型的適配器）", "mine")]


def test_two_models_that_would_be_called_the_same_have_their_ids() -> None:
    runs = [spec(id=name, title="tiny, lora on mine") for name in ("first", "second")]
    others = [spec(id="third", title="tiny, lora on others")]
    labels = [label for label, _ in views.model_choices([*runs, *others], "en")]
    assert [label.partition(" · ")[2] for label in labels] == ["first", "second", ""]


def test_a_running_run_shows_steps_time_left_and_speed() -> None:
    paces = {"eta_seconds": 75, "samples_per_second": 33.2, "speedup": 4.21, "memory_bytes": 2**30}
    shown = run_views.run_status(run(phase="training", step=30, max_steps=120, **paces), "en")
    assert 'aria-valuenow="25.0"' in shown
    for words in ("step 30 of 120", "1 min 15 s", "33.2", "4.2 ×", "1.00 GiB", "Running"):
        assert words in text_of(shown)
    in_chinese = run_views.run_status(run(phase="training", step=30, max_steps=120, **paces), "zh-CN")
    assert "1 分 15 秒" in text_of(in_chinese)


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        ("listening", "Base model transcribes the clips: 10 of 40"),
        ("evaluating", "Evaluating: 10 of 40 clips"),
        ("checking", "Capability check: 25 %"),
    ],
)
def test_what_is_done_in_a_phase_is_counted_and_fills_its_bar(phase: str, words: str) -> None:
    shown = run_views.run_status(run(phase=phase, step=30, max_steps=40, eval_progress=(10, 40)), "en")
    assert words in text_of(shown) and 'aria-valuenow="25.0"' in shown
    assert ("step 30 of 40" in shown) == (phase == "evaluating")


@pytest.mark.parametrize("phase", ["starting", "loading_model", "saving", "checking"])
def test_a_phase_of_which_nobody_knows_how_far_it_is_has_neither_steps_nor_a_filled_bar(phase: str) -> None:
    shown = run_views.run_status(run(phase=phase, step=2, max_steps=9), "en")
    assert "step 2" not in shown and "aria-valuenow" not in shown and "bar-moving" in shown


def test_time_that_is_left_of_a_phase_alone_is_called_so() -> None:
    first = run(phase="evaluating", max_steps=40, eval_progress=(8, 24), eta_seconds=11)
    later = replace(first, step=14)
    assert "Phase time left 11 s" in text_of(run_views.run_status(first, "en"))
    assert "Phase" not in (shown := text_of(run_views.run_status(later, "en"))) and "Time left 11 s" in shown
    assert follow.progress(first).endswith("11 s left in this phase") and follow.progress(later).endswith(
        "11 s left"
    )


def test_what_is_not_known_yet_has_its_place_until_a_run_is_over() -> None:
    names = ("Time left", "Loss", "Word errors", "Memory in use", "Data-loading wait")
    for state in (JobState.QUEUED, JobState.RUNNING):
        assert all(f"{name} –" in shown_run(state) for name in names)
    assert "–" not in shown_run(JobState.STOPPED)


def test_what_short_windows_gain_and_cost_stands_beside_the_base() -> None:
    rows = [
        {"is_base": True, "audio_context": "full", "disagreement": 0.0, "error": 0.438, "seconds": 80.0},
        {"is_base": False, "audio_context": "short", "disagreement": 0.12, "error": 0.45, "seconds": 16.0},
    ]
    report = {"metric": "cer", "clips": 100, "sound_seconds": 470.0, "readings": rows}
    shown = text_of(run_views.run_findings(run(JobState.FINISHED, short_audio=report), "en"))
    for words in ("Base: 30 seconds", "Tuned: Audio length", "12.0 %", "45.0 %", "6.2 (5.0 ×)"):
        assert words in shown
    without = {**report, "readings": [{**row, "error": None} for row in rows]}
    shown = text_of(run_views.run_findings(run(JobState.FINISHED, short_audio=without), "en"))
    assert "Character errors" not in shown and "of 4.7 s on average" in shown


def test_a_finished_run_tells_errors_before_and_after_and_its_model() -> None:
    metrics = {"base": {"wer": 0.83}, "final": {"wer": 0.12}}
    shown = shown_run(JobState.FINISHED, metrics=metrics, metric="wer", model_id="mine")
    assert "Word errors: 83.0 % → 12.0 %" in shown and "Created mine" in shown


def test_languages_without_spaces_are_measured_in_characters() -> None:
    points = (EvalPoint(0, 0.0, 1.0, 0.44, 1.0), EvalPoint(9, 1.0, 0.9, 0.19, 0.5))
    assert "Character errors 44.0 % → 19.0 %" in shown_run(metric="cer", eval_points=points)
    listed = [run(metric=metric, eval_points=points) for metric in ("cer", "wer")]
    shown = text_of(run_views.history_table(listed, 2, "", "en"))
    assert "44.0 % → 19.0 % CER" in shown and "100.0 % → 90.0 % WER" in shown


def test_the_error_of_a_run_is_translated() -> None:
    error = Message("There is no model {name!r}; did you mean {nearest}?", name="smal", nearest="small")
    shown = shown_run(JobState.FAILED, "zh-TW", error=error)
    assert "smal" in shown and "There is no model" not in shown


@pytest.mark.parametrize("locale", ["zh-CN", "zh-TW"])
def test_what_is_said_within_an_error_or_a_warning_is_translated_with_it(locale: str, tmp_path: Path) -> None:
    folder = RunDir(tmp_path)
    write_json(folder.config, config_to_dict(TrainingConfig()))
    events = EventLog(folder.events)
    lost = Joined((CHECK_NAMES["timestamps"], CHECK_NAMES["silence"]))
    template = "The base is better at: {names}. A gentler run forgets less."
    events.warn(Message(template, names=lost))
    error = nothing_left(TrainingConfig(), Shortage(OUT_OF_MEMORY, "training", 7, 2**31, 2**30))
    write_json(folder.result, Outcome(error=error).to_json({}))
    status = view(folder, Histories().read(folder.events))
    assert "Memory ran out at step 7" in str(status.error) and "Timestamps, No text on silence" in str(
        status.warnings[0]
    )
    shown = text_of(run_views.run_status(status, locale))
    for english in ("Memory ran out", "Timestamps", "No text on silence", " off"):
        assert english not in shown
    names = [tr(CHECK_NAMES[name].template, locale) for name in ("timestamps", "silence")]
    assert "、".join(names) in shown and "2.00 GiB" in shown


def test_what_comes_from_outside_is_escaped() -> None:
    told = {"warnings": (Message("{text}", text=EVIL),), "samples": ({"reference": EVIL},)}
    status = run(JobState.FAILED, name=EVIL, error=Message("{text}", text=EVIL), **told)
    for shown in (
        run_views.run_status(status, "en"),
        run_views.samples_table(status.samples, "en"),
        run_views.history_table([status], 1, "", "en"),
    ):
        assert "&lt;img" in shown and "<img" not in shown


def test_the_shown_run_is_marked_in_the_history() -> None:
    assert 'aria-current="true"' in run_views.history_table([run()], 1, "run-1", "en")
    assert "aria-current" not in run_views.history_table([run()], 1, "other", "en")


def test_runs_that_are_not_in_the_history_are_counted() -> None:
    assert "older runs" not in run_views.history_table([run()], 1, "", "en")
    assert "9 older runs: python -m studio runs --all" in run_views.history_table([run()], 10, "", "en")


def test_the_preview_names_bad_rows_by_line() -> None:
    good = Example(Path("/a/good.wav"), "hello", "en", None, None, None, 1.5, (), 1)
    long = replace(good, text="so " * 5000)
    assert len(data_views.manifest_preview(Manifest("list.csv", "csv", (long,), ()), "en")) < 2000
    bad = RowProblem(2, Message("There is no file {path}.", path="b.wav"), "b.wav")
    shown = text_of(data_views.manifest_preview(Manifest("list.csv", "csv", (good,), (bad,)), "en"))
    assert "Rows that can be read: 1, unusable: 1" in shown and "good.wav hello en 1.5 s" in shown
    assert "2 b.wav There is no file b.wav." in shown


def test_of_several_lists_the_preview_and_doubted_labels_name_the_list() -> None:
    row = Example(Path("/a/good.wav"), "hello", "en", None, None, None, 1.5, (), 4, source="/a/b.csv")
    label = HeardLabel(4, "/a/good.wav", "hello", "hollow", 1.0, "", "en", 1.0, source="/a/b.csv")
    for shown in (
        data_views.manifest_preview(Manifest("/a/b.csv,/a/c.csv", "csv", (row,), ()), "en"),
        labels_table([label], "en"),
    ):
        assert "b.csv : 4" in text_of(shown)
    same = {
        "en": "The clip is the same as in line 4 of mine/b.csv, but with another text.",
        "zh-CN": "该片段与第 4 行（mine/b.csv）相同，但文本不同。",
        "zh-TW": "該片段與第 4 行（mine/b.csv）相同，但文字不同。",
    }
    for locale, text in same.items():
        place = place_of(4, "/a/very/long/way/to/mine/b.csv")
        told = tr("The clip is the same as in {place}, but with another text.", locale, place=place)
        assert told == text


def test_a_label_that_the_model_transcribes_alike_is_not_among_those_it_disagrees_with() -> None:
    alike = HeardLabel(1, "a.wav", "hello", "Hello.", 0.0, "", "en", 1.0)
    long = replace(alike, line=2, text="so " * 5000, heard="so", error_rate=1.0)
    shown = labels_table([long, alike], "en")
    assert "Hello." not in shown and len(shown) < 2000
    assert text_of(labels_table([alike], "en")) == "The model transcribes what the labels say (1 clip)."


SEGMENTS = (
    Segment(0.0, 1.5, " Hello you", (Word(0.0, 0.5, "Hello", 0.98), Word(0.5, 1.5, " you"))),
    Segment(61.0, 63.25, EVIL),
)


def test_a_segment_has_buttons_that_know_their_seconds_and_a_field_to_correct_it_in() -> None:
    shown = transcript_views.segment_list(SEGMENTS, Path("/cache/a b.wav"), "en")
    assert 'data-seek="61.000" data-until="63.250"' in shown and "01:01.0 – 01:03.2" in text_of(shown)
    assert 'src="gradio_api/file=/cache/a%20b.wav"' in shown and "<img" not in shown
    assert shown.count("<textarea") == len(SEGMENTS) and 'dir="auto"' in shown
    assert "00:00 / 01:03" in text_of(shown) and "data-play=" in shown
    without_sound = transcript_views.segment_list(SEGMENTS, None, "en")
    assert without_sound.count('class="word"') == 2 and "<audio" not in without_sound
    assert "data-play=" not in without_sound
    assert "lang=" not in shown
    told = transcript_views.segment_list([Segment(0.0, 1.0, "打开灯。", language="zh")], None, "en")
    assert '<span class="said" dir="auto" lang="zh">' in told


@pytest.mark.parametrize(
    ("text", "words"), [(" Turn on, now.", ("Turn", "on,", "now.")), ("打开灯。", ("打开", "灯。"))]
)
def test_words_stand_as_they_do_in_the_text(text: str, words: tuple[str, ...]) -> None:
    shown = shown_words(*(Word(0.0, 1.0, word) for word in words), text=text)
    assert text.strip() in re.sub(r"<[^>]+>", "", shown)


def test_silence_shows_no_list() -> None:
    assert transcript_views.segment_list((), Path("a.wav"), "en") == ""


def test_facts_name_language_length_and_speed() -> None:
    transcript = Transcript("hi", (), "zh", 10.0, "demo", "hf", processing_seconds=2.5)
    shown = text_of(transcript_views.transcript_facts(transcript, "en"))
    assert "Language Chinese" in shown and "Length 10 s" in shown and "Real-time factor 0.25" in shown


def test_facts_call_a_model_that_is_only_known_by_its_folder_like_the_folder(tmp_path: Path) -> None:
    transcript = Transcript("hi", (), "zh", 10.0, str(tmp_path / "whisper-tiny"), "hf")
    assert text_of(transcript_views.transcript_facts(transcript, "en")).endswith("Model whisper-tiny")


def test_a_language_that_was_found_out_is_told_with_its_rivals() -> None:
    odds = {"en": 0.90, "de": 0.08, "zh": 0.001}
    transcript = Transcript("hi", (), "en", 10.0, "demo", "hf", language_probabilities=odds)
    shown = text_of(transcript_views.transcript_facts(transcript, "en"))
    assert "Language English 90.0 %, German 8.0 % Length" in shown


@pytest.mark.parametrize(
    ("probability", "level"), [(1.0, 0), (0.9, 0), (0.89, 1), (0.7, 1), (0.5, 2), (0.39, 3), (0.0, 3)]
)
def test_how_sure_the_model_was_is_marked_and_explained(probability: float, level: int) -> None:
    shown = shown_words(Word(0.0, 1.0, "hi", probability))
    assert f'data-sure="{level}" title' in shown and "How sure the model is:" in shown


def test_without_probabilities_there_is_no_legend() -> None:
    assert "How sure" not in shown_words(Word(0.0, 1.0, "hi"))


def test_the_picture_has_a_mark_where_each_segment_is() -> None:
    shown = transcript_views.waveform([0.0, 1.0, 0.5], SEGMENTS[1:], 122.0, "en")
    assert "left:50.000%;width:1.844%" in shown and "M1 0.0V100.0" in shown
    assert "<img" not in shown


def test_a_download_is_the_file_itself() -> None:
    shown = transcript_views.download_links({"srt": "1\n你好"}, 'a"b', "en")
    data = re.search(r"base64,([^\"]+)", shown)
    assert data and base64.b64decode(data[1]).decode() == "1\n你好"
    assert 'download="a&quot;b.srt"' in shown


def compared(clips: int = 9, locale: str = "en", **values: Any) -> str:
    interval = {"difference": -0.2, "ci_low": -0.25, "ci_high": -0.15, "significant": True}
    row = {"a": "demo", "b": "mine", "metric": "wer", "better": 7, "worse": 2, **interval, **values}
    models = [{"id": row[name], "n": clips, "scripts": {}, "normalizer": "none"} for name in ("a", "b")]
    found = {"models": models, "comparisons": [row], "reference_scripts": {}}
    return text_of(evaluation_views.comparison_sentences(found, locale, "wer"))


def test_a_real_difference_is_a_sentence_with_the_better_model_first() -> None:
    assert compared() == (
        "WER: mine makes 20.0 points fewer errors than demo (95 % interval 15.0 to 25.0): a real difference. "
        "mine makes fewer errors than demo in 7 clips, more in 2."
    )


def test_chinese_closes_up_what_the_studio_calls_a_model_and_not_what_people_do() -> None:
    shown = compared(locale="zh-CN", a=views.known_name("demo", "zh-CN"), b="普通话")
    assert "普通话 比演示模型少 20.0" in shown and "普通话 在 7 个片段中错误少于演示模型，" in shown


def test_a_difference_that_may_be_chance_says_so() -> None:
    shown = compared(ci_low=-0.3, ci_high=0.1, significant=False)
    assert "may be chance" in shown and "-10.0 to 30.0" in shown


def test_two_that_make_the_same_errors_are_said_to() -> None:
    shown = compared(difference=0.0, ci_low=0.0, ci_high=0.0, significant=False, better=0, worse=0)
    assert shown == "WER: demo and mine make as many errors in every clip."


def test_of_few_clips_a_difference_is_neither_real_nor_chance() -> None:
    for clips in (1, 4):
        shown = compared(clips)
        assert "too few clips to tell" in shown and "real" not in shown and "15.0 to 25.0" in shown
    assert "片段太少，无法判断" in compared(4, "zh-CN") and "片段太少，無法判斷" in compared(4, "zh-TW")


def test_characters_of_another_script_concern_those_alone_who_write_them() -> None:
    writes = {"demo": {}, "mine": {}, "tiny": {"traditional": 2}}
    models = [{"id": name, "n": 9, "scripts": found, "normalizer": "none"} for name, found in writes.items()]
    found = {"models": models, "reference_scripts": {"simplified": 3}}
    pairs = [{"a": "demo", "b": name, "significant": True} for name in ("mine", "tiny")]
    assert [worth_of(pair, found) for pair in pairs] == ["real", "script"]


def test_the_best_model_is_set_in_bold() -> None:
    row = {"cer": 0.1, "mer": 0.1, "real_time_factor": 0.02, "n": 4}
    rows = [{"id": "a", "wer": 0.5, **row}, {"id": "b", "wer": 0.2, **row}]
    shown = evaluation_views.rates_table(rows, "en", "wer")
    assert "<b>20.0 %</b>" in shown and "<b>50.0 %</b>" not in shown
    assert shown.index("WER (words)") < shown.index("CER (characters)")


def test_where_characters_count_their_errors_come_first_and_the_best_of_them_is_in_bold() -> None:
    row = {"mer": 0.1, "real_time_factor": 0.02, "n": 4}
    rows = [{"id": "a", "wer": 1.0, "cer": 0.1, **row}, {"id": "b", "wer": 0.9, "cer": 0.3, **row}]
    shown = evaluation_views.rates_table(rows, "en", "cer")
    assert "<b>10.0 %</b>" in shown and shown.count("<b>") == 1
    assert shown.index("CER (characters)") < shown.index("WER (words)")
    assert shown.index("10.0 %") < shown.index("100.0 %")
    rows = [{"normalizer": "none", "model": "a", "wer": 1.0, "cer": 0.1}]
    shown = text_of(evaluation_views.normalizers_table(rows, "en", "cer"))
    assert shown.index("a: CER") < shown.index("a: WER") and shown.index("10.0 %") < shown.index("100.0 %")


def test_the_first_sentence_on_each_pair_is_on_the_metric_that_counts() -> None:
    values = {
        "ci_low": -0.1,
        "ci_high": 0.1,
        "significant": False,
        "difference": 0.0,
        "better": 1,
        "worse": 1,
    }
    rows = [{"a": "a", "b": b, "metric": metric, **values} for b in ("b", "c") for metric in ("wer", "cer")]
    found = {"models": [{"n": 9}], "comparisons": rows, "reference_scripts": {}}
    for metric, order in (("cer", ["CER", "WER"] * 2), ("wer", ["WER", "CER"] * 2)):
        shown = text_of(evaluation_views.comparison_sentences(found, "en", metric))
        assert re.findall("[WC]ER", shown) == order
        assert shown.index("a and b") < shown.index("a and c") or shown.index("b and a") < shown.index(
            "c and a"
        )


def test_side_by_side_the_metric_that_counts_comes_first_and_another_script_is_spoken_of() -> None:
    heard = [Transcript("打開燈", (), "zh", 1.0, model, "transformers") for model in ("a", "b")]
    shown = text_of(evaluation_views.side_by_side_view(side_by_side(heard, "打开灯"), "en", str.upper))
    assert shown.index("CER (characters)") < shown.index("WER (words)")
    assert shown.index("66.7 %") < shown.index("100.0 %")
    assert "A writes traditional characters (2) where the reference is simplified" in shown
    assert "traditional" not in evaluation_views.side_by_side_view(side_by_side(heard, ""), "en")
    assert "traditional" not in evaluation_views.side_by_side_view(side_by_side(heard, "打開燈"), "en")


def test_the_diff_marks_what_was_left_out_put_in_and_replaced() -> None:
    shown: Html = evaluation_views.difference("turn on the light now", "turn the lamp now please")
    assert "<del>on</del>" in shown and "<ins>please</ins>" in shown
    assert '<mark title="light">lamp</mark>' in shown
