"""The card: what the Hub's library reads of it, what stands first, and what never stands in it."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard, RepoCard

from studio.options.arguments import config_to_dict
from studio.options.training import TrainingConfig
from studio.publishing.card import model_card, write_card
from studio.publishing.space import space_files
from studio.registry.spec import ModelKind, ModelSource, ModelSpec

BASE = "openai/whisper-tiny"
FINAL = {"wer": 0.188, "cer": 0.07, "intervals": {"wer": [0.15, 0.22]}}
CHECK = {"check": "long_form", "base": 0.9, "tuned": 0.6, "clips": 40, "low": -0.4, "high": -0.2}
FACTS: dict[str, Any] = {
    "method": "lora",
    "languages": ["sv", "xx"],
    "base_model": BASE,
    "data": {
        "source": "/home/eve/lab/clips.jsonl",
        "datasets": ["mozilla-foundation/common_voice_17_0"],
        "train_samples": 1300,
        "train_hours": 1.5,
        "eval_samples": 120,
        "eval_datasets": [],
        "eval_source": "/home/eve/lab/test.jsonl",
    },
    "metrics": {"metric": "wer", "best_step": 150, "base": {"wer": 0.247, "cer": 0.1}, "final": FINAL},
    "capabilities": {
        "checks": [{**CHECK, "verdict": "worse"}],
        "lost": ["long_form"],
        "unchecked": ["language"],
        "non_speech": {
            "base": {"words_per_hour": 1240.0, "loop_rate": 1 / 6, "seconds": 180.0},
            "tuned": {"words_per_hour": 0.0, "loop_rate": 0.0, "seconds": 180.0},
        },
    },
    "config": config_to_dict(
        TrainingConfig(base_model=BASE, train_data="/home/eve/lab/clips.jsonl", run_name="Eve", lora_r=16)
    ),
    "steps": 200,
    "learning_rate": 5e-4,
    "device": "NVIDIA_X|*",
    "seconds": {"training": 700.0},
    "memory": {"predicted": {"device_bytes": 2**31}, "measured": {"device_bytes": 2**31 + 2**28}},
    "command": "python -m studio train --train_data /home/eve/lab/clips.jsonl",
    "title": "Eve's",
    "run_id": "Eve-20260101",
}


def spec(kind: ModelKind = ModelKind.ADAPTER, base: str = BASE, **card: Any) -> ModelSpec:
    return ModelSpec("eve-2026", kind, ModelSource.TRAINED, "Eve's", base_model=base, card={**FACTS, **card})


def test_the_hub_reads_what_it_is_made_of_and_how_well_it_hears() -> None:
    data = ModelCard(model_card(spec(), "somebody/mine", "cc-by-4.0")).data.to_dict()
    assert (data["base_model"], data["base_model_relation"]) == (BASE, "adapter")
    assert (data["language"], data["license"], data["library_name"]) == (["sv"], "cc-by-4.0", "peft")
    assert data["pipeline_tag"] == "automatic-speech-recognition"
    assert data["datasets"] == ["mozilla-foundation/common_voice_17_0"]
    assert {"whisper", "lora"} <= set(data["tags"])
    (result,) = data["model-index"][0]["results"]
    assert [(row["type"], row["value"]) for row in result["metrics"]] == [("wer", 18.8), ("cer", 7.0)]
    kinds = {ModelKind.MERGED: "transformers", ModelKind.EXPORT: "ctranslate2"}
    for kind, library in kinds.items():
        assert ModelCard(model_card(spec(kind))).data.library_name == library


def test_a_loss_stands_first_and_figures_have_their_intervals() -> None:
    text = ModelCard(model_card(spec(), "somebody/mine")).text
    assert text.index("The base is better at:** Long recordings") < text.index("## Errors")
    assert "| Word error rate | 24.7 % | 18.8 % (15.0 % to 22.0 %) |" in text
    assert "| 90.0 % | 60.0 % | -40.0 to -20.0 points | **worse** |" in text
    assert "Not checked: Language detection." in text
    assert "Words per hour of non-speech: 1,240 → 0; texts that are loops: 16.7 % → 0.0 %." in text
    assert "1,300 clips (1 h 30 min)" in text and "11 min 40 s on NVIDIA\\_X\\|\\*, 200 steps" in text
    assert "2.00 GiB predicted, 2.25 GiB measured" in text
    assert "`lora_r` 16" in text and "`learning_rate` 0.0005" in text


def test_of_chinese_characters_are_counted_and_what_is_only_another_script_is_told() -> None:
    metrics = {"metric": "cer", "base": {"cer": 0.42, "cer_in_one_script": 0.17}}
    metrics["final"] = {**FINAL, "cer_in_one_script": 0.07}
    for card in (spec(metrics=metrics), spec(ModelKind.EXPORT, made_of={**FACTS, "metrics": metrics})):
        text = model_card(card)
        assert "Long recordings: characters right in a minute of the tuned speech" in text
        assert "In one script, the character errors are 17.0 % before and 7.0 % after." in text
    assert "Long recordings: words right" in model_card(spec())


@pytest.mark.parametrize("kind", [ModelKind.ADAPTER, ModelKind.MERGED, ModelKind.EXPORT, ModelKind.BASE])
@pytest.mark.parametrize("base", [BASE, "/home/eve/models/secret", "demo"])
def test_no_path_and_no_name_stands_in_it(kind: ModelKind, base: str) -> None:
    text = model_card(spec(kind, base, base_model=base))
    assert not re.search(r"eve|/home|secret|lab", text, re.IGNORECASE)
    is_alone = kind is ModelKind.ADAPTER and base != BASE
    assert f"studio transcribe --model {'MODEL' if is_alone else 'OWNER/NAME'}" in text
    assert ("OWNER/NAME" in text) is not is_alone


@pytest.mark.parametrize("kind", [ModelKind.ADAPTER, ModelKind.MERGED, ModelKind.EXPORT, ModelKind.BASE])
def test_the_programs_in_it_and_in_a_space_can_be_read_by_python(kind: ModelKind) -> None:
    programs = re.findall(r"```python\n(.*?)```", model_card(spec(kind)), re.DOTALL)
    files = space_files(spec(kind), "somebody/mine", "mit")
    for program in (*programs, files["app.py"].decode()):
        compile(program, "program", "exec")
    assert len(programs) == 1 and ("peft" in programs[0]) == (kind is ModelKind.ADAPTER)
    assert ("peft" in files["app.py"].decode()) == ("peft" in files["requirements.txt"].decode())
    assert not re.search(r"eve|/home|secret|lab\b", b"".join(files.values()).decode(), re.IGNORECASE)
    about = RepoCard(files["README.md"].decode()).data.to_dict()
    assert (about["sdk"], about["app_file"], about["license"]) == ("gradio", "app.py", "mit")


def test_unless_told_the_license_is_that_of_the_base() -> None:
    for base, license in ((BASE, "apache-2.0"), ("openai/whisper-large-v3-turbo", "mit"), ("a/b", None)):
        assert ModelCard(model_card(spec(base=base, base_model=base))).data.license == license


def test_an_adapter_whose_base_nobody_can_load_is_merged_first() -> None:
    text = model_card(spec(base="demo", base_model="demo"))
    assert "studio export MODEL --format merged" in text and "from_pretrained" not in text
    assert "--format merged" not in model_card(spec())


def test_of_few_clips_and_of_what_neither_can_it_says_no_more_than_is_known() -> None:
    text = model_card(spec(data={**FACTS["data"], "eval_samples": 2}))
    assert "intervals (95 %) over clips. Of so few, they tell little." in text
    assert "tell little" not in model_card(spec())
    assert "tell little" not in model_card(spec(data={**FACTS["data"], "eval_samples": 5}))
    nothing = {**CHECK, "base": 0.0, "tuned": 0.0, "low": 0.0, "high": 0.0, "verdict": "neither"}
    text = model_card(spec(capabilities={"checks": [nothing]}))
    assert "| neither can |" in text and "| kept |" not in text


def test_a_conversion_is_not_called_tuned() -> None:
    made = ModelSpec("x", ModelKind.EXPORT, ModelSource.TRAINED, "x", base_model=BASE, card={"parity": []})
    assert f"converted from [{BASE}]" in model_card(made) and "tuned from" not in model_card(made)
    tuned = replace(made, card={"made_of": FACTS})
    assert f"tuned from [{BASE}]" in model_card(tuned)


def test_an_export_tells_how_the_model_did_that_it_was_made_of() -> None:
    parity = [{"clips": 3, "tokens": 30, "different_tokens": 2}]
    card = {"made_of": FACTS, "parity": parity, "quantization": "int8", "languages": ["sv"]}
    made = ModelSpec("x", ModelKind.EXPORT, ModelSource.TRAINED, "x", base_model=None, card=card)
    text = model_card(made)
    assert ModelCard(text).data.base_model == BASE and "18.8 %" in text
    assert "Weights in int8. 30 tokens of 3 clips beside the model that it was made of: 2 differ." in text


YAML = "\n---\nlicense: x\n---\n"
HOSTILE: tuple[Any, ...] = ("<script>", "](http://x)", YAML, 7, None, ["\n# x"], [[]], {"a": "\0"}, 1e400)


@pytest.mark.parametrize("value", HOSTILE)
def test_a_card_that_somebody_has_written_says_nothing_it_should_not(value: Any) -> None:
    for name in FACTS:
        text = model_card(spec(**{name: value}))
        assert "<script>" not in text and "](http://x)" not in text and "\n# x" not in text, name
        assert ModelCard(text).data.license in (None, "apache-2.0")
    nested = {name: dict.fromkeys(told, value) for name, told in FACTS.items() if isinstance(told, dict)}
    assert "<script>" not in model_card(spec(**nested))
    checked = {"checks": [{**CHECK, "check": value}, CHECK], "unchecked": ["silence"]}
    assert "Not checked" in model_card(spec(capabilities=checked))


def test_each_model_that_is_made_has_it_beside_it(tmp_path: Path) -> None:
    write_card(ModelSpec("x", ModelKind.BASE, ModelSource.TRAINED, "x", path=tmp_path, card=FACTS))
    assert (tmp_path / "README.md").read_text("utf-8").startswith("---\n")
