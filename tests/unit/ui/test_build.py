"""The page as it is built, before anything is started."""

from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qsl

import gradio as gr
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from studio.actions.estimate import Question, answer, batch_curve, estimate_command
from studio.actions.fit import FitQuestion
from studio.errors import ConfigError, RunError
from studio.options.choices import ALL_LINEAR
from studio.options.training import FIELDS, GROUPS, TrainingConfig
from studio.services import Services
from studio.serving.gate import Names
from studio.serving.uploads import Uploads
from studio.serving.waiting import AT_ONCE, Line
from studio.settings import Settings
from studio.ui.build import VISITORS_KEPT, build_app, launch_options
from studio.ui.shared.access import require_training, why_training_is_off
from studio.ui.shared.forms import field_component, form_config, shown_value
from studio.ui.shared.handover import handed
from studio.ui.shared.links import link_query, linked_values

PUBLIC = {
    *("fit", "explain_oom", "presets", "memory_claims", "doctor", "trace", "probe"),
    *("models", "estimate", "start_run", "runs", "run_status", "stop_run", "resume_run", "transcribe"),
    *("check_data", "export", "evaluate"),
}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> gr.Blocks:
    """The page, which no test of it changes."""
    return build_app(Services.open(Settings(home=tmp_path_factory.mktemp("home"))), Line(AT_ONCE))


def test_only_the_endpoints_for_programs_are_public_and_polling_never_waits(app: gr.Blocks) -> None:
    assert {str(fn.api_name) for fn in app.fns.values() if fn.api_visibility == "public"} == PUBLIC
    polling = [fn for fn in app.fns.values() if any(event == "tick" for _, event in fn.targets)]
    assert polling and all(fn.concurrency_limit is None for fn in polling)


def test_a_choice_from_a_list_that_the_session_has_forgotten_is_not_refused(app: gr.Blocks) -> None:
    changing = {"record-session", *(f"{form}-precision" for form in ("memory", "transcribe", "evaluate"))}
    read = [(each, fn) for fn in app.fns.values() for each in fn.inputs if each.elem_id in changing]
    assert {each.elem_id for each, _fn in read} == changing
    assert all(each.preprocess("int8") == "int8" for each, fn in read if fn.fn and fn.preprocess)


def test_what_is_chosen_clicked_or_uploaded_while_the_last_is_answered_is_not_forgotten(
    app: gr.Blocks,
) -> None:
    told = {"input", "upload", "edit", "submit", "pick"}
    asked = [fn for fn in app.fns.values() if fn.fn and any(event in told for _, event in fn.targets)]
    forgotten = [fn.targets for fn in asked if fn.outputs and fn.trigger_mode == "once"]
    assert len(asked) > 12 and forgotten == []


def test_a_batch_of_one_leaves_the_tick_at_previous_text_as_it_was(app: gr.Blocks) -> None:
    (fn,) = [
        fn
        for fn in app.fns.values()
        if [each.elem_id for each in fn.outputs] == ["transcribe-condition_on_prev_tokens"]
    ]
    together, alone = (fn.fn(size, None) for size in (8, 1))
    assert (together["interactive"], alone["interactive"]) == (False, True)
    assert "value" not in together | alone


def test_each_button_that_stops_work_is_called_as_the_page_looks_for_it(app: gr.Blocks) -> None:
    offers = [fn for fn in app.fns.values() if "interactive: true" in str(fn.js)]
    assert len(offers) > 8
    assert all(str(button.elem_id).endswith("-cancel") for fn in offers for button in fn.outputs)


def test_a_change_of_the_form_calls_off_the_picture_that_is_being_drawn_of_it(app: gr.Blocks) -> None:
    fns = app.fns.values()
    (drawing,) = [fn for fn in fns if fn.name == "show" and fn.fn.__module__ == "studio.ui.memory.step"]
    changes = {target for fn in fns if drawing._id in fn.cancels for target in fn.targets}
    assert changes == {(field._id, "change") for field in drawing.inputs}


def test_what_of_a_file_is_read_otherwise_stands_beside_its_field_in_the_visitors_language(
    app: gr.Blocks, tmp_path: Path
) -> None:
    (load,) = [fn for fn in app.fns.values() if "train-file-refused" in [each.elem_id for each in fn.outputs]]
    request = gr.Request(headers={"accept-language": "zh-CN"})
    file = tmp_path / "mine.yaml"
    said = "--save_strategy no 在这里不起作用：继续训练要靠检查点。"
    for text, told in (("save_strategy: no", said), ("", "")):
        file.write_text(text, encoding="utf-8")
        answer = dict(zip([each.elem_id for each in load.outputs], load.fn(str(file), request), strict=True))
        assert told in answer["train-file-refused"] and bool(told) == bool(answer["train-file-refused"])


def test_of_all_visitors_only_the_last_hundred_are_kept_in_memory(settings: Settings) -> None:
    with closing(Uploads(settings)) as uploads:
        options = launch_options(
            Services.open(settings), Names(settings, "127.0.0.1"), uploads, Line(AT_ONCE)
        )
    assert options["state_session_capacity"] == VISITORS_KEPT <= 100
    assert options["run_history"] is False


def test_programs_wait_in_the_line_of_the_page(settings: Settings) -> None:
    line = Line(AT_ONCE)
    line.close(0)
    with closing(Uploads(settings)) as uploads:
        options = launch_options(Services.open(settings), Names(settings, "127.0.0.1"), uploads, line)
        programs = TestClient(Starlette(routes=options["app_kwargs"]["routes"]))
        told = programs.post("/v1/audio/transcriptions", files={"file": b"RIFF"})
    assert (told.status_code, told.json()["error"]["code"]) == (503, "server_stopping")


def test_every_field_of_a_run_has_a_label_and_every_choice_a_name() -> None:
    as_spelt = {"fp32", "fp16", "bf16", "wer", "cer", "tensorboard", "wandb", "trackio"}
    as_spelt |= {"sdpa", "eager", "flash_attention_2"}
    for f in FIELDS.values():
        assert f.metadata["label"] and f.metadata["help"] and f.metadata["group"] in {"model", *GROUPS}
        assert {value for value, label in f.metadata["choices"].items() if value == label} <= as_spelt


def test_every_number_of_a_run_has_bounds() -> None:
    numbers = {f.name for f in FIELDS.values() if f.type in (int, float, int | None, float | None)}
    assert numbers == {f.name for f in FIELDS.values() if f.metadata["bounds"]}


def test_the_form_untouched_is_the_default_run() -> None:
    values = {name: shown_value(f.default) for name, f in FIELDS.items()}
    assert values["target_modules"] == "all-linear" and values["max_train_samples"] == 0
    assert form_config(values) == TrainingConfig()


def test_numbers_of_the_form_reach_the_run() -> None:
    config = form_config({"max_train_samples": 20, "target_modules": "q_proj, v_proj", "seed": 1.0})
    assert (config.max_train_samples, config.target_modules, config.seed) == (20, ("q_proj", "v_proj"), 1)
    assert config.lora_r == TrainingConfig().lora_r and set(ALL_LINEAR) > set(config.target_modules)


def test_several_trackers_and_a_share_of_the_steps_can_be_given_in_the_form() -> None:
    asked = {"report_to": "tensorboard, wandb", "save_steps": 0.25, "logging_steps": 5.0}
    config = form_config({name: field_component(name).preprocess(value) for name, value in asked.items()})  # type: ignore[attr-defined]
    assert (config.trackers, config.save_steps) == (("tensorboard", "wandb"), 0.25)
    assert repr(config.logging_steps) == "5"


@pytest.mark.parametrize("name", list(FIELDS))
def test_each_field_has_a_component(name: str) -> None:
    assert field_component(name).elem_id == f"train-{name}"


def test_on_a_space_training_is_off_and_the_reason_tells_the_way_out(settings: Settings) -> None:
    space = Settings(home=settings.home, on_spaces=True, allow_training=False)
    assert "Duplicate this Space" in why_training_is_off(space)
    with pytest.raises(RunError, match="STUDIO_ALLOW_TRAINING"):
        require_training(space)


def test_at_home_training_is_on(settings: Settings) -> None:
    assert why_training_is_off(settings) == ""
    require_training(settings)


def test_the_command_of_an_estimate_says_what_was_asked() -> None:
    question = Question("small", method="full", gradient_checkpointing=True, gpu="RTX 4090")
    assert estimate_command(question) == (
        "python -m studio estimate --base_model small --method full --per_device_train_batch_size 8 "
        "--gradient_checkpointing --gpu 'RTX 4090'"
    )


def test_an_estimate_of_transcribing_leaves_the_options_of_training_out() -> None:
    command = estimate_command(Question("small", use="transcribe", method="full", lora_r=8, gpu="T4"))
    assert command.endswith("--base_model small --use transcribe --per_device_train_batch_size 8 --gpu T4")


def test_weights_that_faster_whisper_does_not_have_are_in_no_command() -> None:
    question = Question("small", use="transcribe", engine="faster-whisper", quantization="4bit")
    assert "quantization" not in estimate_command(question) + link_query(question)


@pytest.mark.parametrize(
    "question",
    [
        Question("openai/whisper-small"),
        Question("small", method="full", gradient_checkpointing=True, gpu="T4", lora_r=7, label_length=100),
        Question("tiny", use="transcribe", engine="faster-whisper", precision="int8", num_beams=3),
        FitQuestion(),
        Question("/home/a/" + 40 * "folder/", loss_chunk_size=100_000),
        FitQuestion(gpu="T4", memory_gib=7.5, base_model="small", hours=3, method="full", label_length=99),
        FitQuestion(gpu="T4", hours=1 / 3),
        FitQuestion(gpu="T4", hours=1e-5),
    ],
)
def test_a_link_brings_back_what_was_asked(question: Question | FitQuestion) -> None:
    section, values = linked_values(dict(parse_qsl(link_query(question))))
    if isinstance(question, FitQuestion):
        assert section == "fit" and FitQuestion(**values) == question
    else:
        assert section == "" and Question(**{"base_model": "", **values}) == question


def test_a_link_that_names_nothing_changes_nothing() -> None:
    assert linked_values({"__theme": "dark", "utm_source": "mail"}) == ("", {})


@pytest.mark.parametrize(
    "named",
    [
        *({"method": "prefix"}, {"gpu": "Voodoo 2"}, {"base_model": "x" * 1001}, {"lora_r": "-1"}),
        *({"lora_r": "1e3"}, {"lora_r": "٣"}, {"gradient_checkpointing": "maybe"}),
        *(
            {"section": "fit", "memory_gib": "-1"},
            {"precision": "int8"},
            {"use": "transcribe", "precision": "int8"},
        ),
    ],
)
def test_a_link_with_a_value_that_cannot_be_is_refused(named: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        linked_values(named)


def test_the_curve_over_batches_has_the_largest_that_fits_on_it(settings: Settings) -> None:
    question = Question("small", gpu="RTX 3060")
    found = answer(question, Services.open(settings).registry)
    points, largest = batch_curve(question, found)
    high = {size: top for size, _low, _middle, top in points}
    assert high[largest] <= found.usable_bytes < min(top for size, top in high.items() if size > largest)


def test_a_plan_brings_only_what_a_plan_decides_into_the_form() -> None:
    _button, options = handed(TrainingConfig(method="full", train_data="mine.jsonl"))
    assert options["method"] == "full"
    assert not {"train_data", "num_train_epochs", "learning_rate", "run_name"} & set(options)
    assert set(options) <= set(FIELDS)
    assert handed(None)[1] == {}
