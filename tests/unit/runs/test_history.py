"""Events to curves, read only as far as they are new."""

from pathlib import Path

from studio.messages import Message
from studio.runs.history import Histories, History
from studio.training.events import EventLog
from studio.translation import said


def write_run(log: EventLog, steps: range) -> None:
    for step in steps:
        log.write("step", step=step, max_steps=10, epoch=step / 5, loss=1 / step, samples_per_second=2.0)


def test_what_was_appended_is_added_to_what_was_read(tmp_path: Path) -> None:
    log, histories = EventLog(tmp_path / "events.jsonl"), Histories()
    write_run(log, range(1, 4))
    first = histories.read(tmp_path / "events.jsonl")
    assert (first.step, first.max_steps, list(first.losses)) == (3, 10, [1, 2, 3])
    write_run(log, range(4, 6))
    second = histories.read(tmp_path / "events.jsonl")
    assert list(second.losses) == [1, 2, 3, 4, 5]
    assert list(first.losses) == [1, 2, 3], "what was given out does not change"
    assert second.offset == (tmp_path / "events.jsonl").stat().st_size


def test_a_measure_that_nobody_knows_is_none(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    log.write("plan", max_steps=3, metric="wenullr")
    assert Histories().read(tmp_path / "events.jsonl").metric == ""
    log.write("plan", max_steps=3, metric="cer")
    assert Histories().read(tmp_path / "events.jsonl").metric == "cer"


def test_half_a_line_is_left_for_later(tmp_path: Path) -> None:
    path, histories = tmp_path / "events.jsonl", Histories()
    write_run(EventLog(path), range(1, 3))
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert list(histories.read(path).losses) == [1]
    path.write_bytes(whole)
    assert list(histories.read(path).losses) == [1, 2]


def test_a_resumption_takes_back_what_happens_again(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    write_run(log, range(1, 6))
    for step in (0, 5):
        log.write("eval", step=step, epoch=0.0, wer=0.5, cer=0.4, loss=1.0, seconds=1.0)
    log.write("resumed", step=3)
    history = Histories().read(tmp_path / "events.jsonl")
    assert history.step == 3
    assert list(history.losses) == [1, 2, 3] and list(history.evaluations) == [0]
    write_run(log, range(4, 5))
    assert list(Histories().read(tmp_path / "events.jsonl").losses) == [1, 2, 3, 4]


def test_evaluation_data_and_warnings_are_kept(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    log.write("data", train_samples=5, eval_samples=1)
    log.write("plan", max_steps=7, metric="cer")
    log.write("phase", phase="evaluating")
    log.write("eval_progress", done=3, total=9)
    log.write("warning", text="Careful.")
    log.write("something of a newer studio")
    history = Histories().read(tmp_path / "events.jsonl")
    assert history.data is not None and history.data["train_samples"] == 5
    assert (history.max_steps, history.metric, history.eval_progress) == (7, "cer", (3, 9))
    assert (history.phase, history.warnings) == ("evaluating", [Message("{text}", text="Careful.")])
    log.write("phase", phase="training")
    assert Histories().read(tmp_path / "events.jsonl").eval_progress is None


def test_a_warning_keeps_its_numbers_and_one_that_does_not_fit_its_template_its_text(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    reason = Message("The duration is {duration:g} s: there is no sound.", duration=0.0)
    log.warn(Message("Line {line} is not used: {reason}", line=12, reason=reason))
    log.write("warning", text="As it was.", template=reason.template, values={"duration": "0"})
    log.write("warning", text="Not whole.", template=reason.template)
    log.write("warning", text="Of another make.", template="{blanks:>99999999}", values={"blanks": ""})
    warnings = Histories().read(tmp_path / "events.jsonl").warnings
    first = "Line 12 is not used: The duration is 0 s: there is no sound."
    assert [str(warning) for warning in warnings] == [first, "As it was.", "Not whole.", "Of another make."]
    assert said(warnings[0], "zh-CN") == "不使用第 12 行：时长是 0 秒：没有声音。"


def test_what_is_not_training_has_time_left_by_its_own_pace() -> None:
    history = History()
    for event in (
        {"kind": "step", "time": 90.0, "step": 9, "max_steps": 9, "eta_seconds": 0.0},
        {"kind": "phase", "time": 100.0, "phase": "checking"},
        {"kind": "eval_progress", "time": 100.0, "done": 0, "total": 5},
    ):
        history.add(event)
    assert history.left_seconds() is None, "not the training's, which is over"
    history.add({"kind": "eval_progress", "time": 106.0, "done": 2, "total": 5})
    assert history.left_seconds() == 9.0


def test_steps_between_two_points_of_the_curve_have_no_loss(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    log.write("step", step=1, max_steps=9, loss=None, memory_bytes=5)
    history = Histories().read(tmp_path / "events.jsonl")
    assert (history.step, history.losses) == (1, {})


def test_no_events_are_an_empty_history(tmp_path: Path) -> None:
    assert Histories().read(tmp_path / "events.jsonl").step == 0
