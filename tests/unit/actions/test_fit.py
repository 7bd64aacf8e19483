"""From a GPU and hours of speech to a run; presets; what guides say."""

from dataclasses import replace

import pytest

from studio.actions.estimate import inference_plan
from studio.actions.fit import FitQuestion, advise, find_fit
from studio.actions.presets import PRESETS, preset
from studio.errors import ConfigError, ModelNotFoundError
from studio.memory.gpus import usable_bytes
from studio.memory.myths import claims
from studio.options.choices import ENGINES
from studio.registry.spec import ModelKind, ModelSource, ModelSpec
from studio.registry.store import ModelRegistry
from studio.settings import Settings
from studio.training.plan import training_plan
from studio.transcription.engine import USUAL_BEAMS

TURBO = "openai/whisper-large-v3-turbo"


@pytest.fixture
def registry(settings: Settings) -> ModelRegistry:
    return ModelRegistry(settings.models, demo=None, hf_cache=settings.hf_cache)


@pytest.mark.parametrize("row", PRESETS, ids=lambda row: row.key)
def test_every_preset_fits_its_card_and_the_run_has_exactly_that_plan(registry: ModelRegistry, row) -> None:
    answer = find_fit(row.question, registry)
    assert answer.result.fits
    assert answer.result.estimate.high_bytes <= usable_bytes(answer.gpu)
    plan = replace(training_plan(answer.config, has_gpu=True), label_length=row.question.label_length)
    assert plan == answer.result.plan


def test_a_stranger_learns_how_to_tune_large_v3_on_a_3060(registry: ModelRegistry) -> None:
    answer = find_fit(FitQuestion(gpu="RTX 3060", base_model="large-v3", method="lora"), registry)
    assert answer.result.fits
    assert "--gradient_checkpointing" in answer.command and "large-v3" in answer.command


def test_the_most_accurate_model_that_needs_no_fewer_bits_is_chosen(registry: ModelRegistry) -> None:
    chosen = set()
    for tenths in range(20, 60, 2):
        answer = find_fit(FitQuestion(memory_gib=tenths / 10), registry)
        fitting = [row for row in answer.models if row.result.fits]
        whole = [row for row in fitting if row.result.plan.quantization == "none"]
        if whole:
            assert answer.base_model == whole[0].base_model
            chosen.add(answer.base_model)
    assert {TURBO, "openai/whisper-large-v3"} <= chosen


def test_hours_decide_the_method_and_who_names_one_keeps_it(registry: ModelRegistry) -> None:
    few = find_fit(FitQuestion(memory_gib=80, hours=3), registry)
    many = find_fit(FitQuestion(memory_gib=80, hours=80), registry)
    assert (few.config.method, few.config.lora_r, many.config.method) == ("lora", 16, "full")
    kept = find_fit(FitQuestion(memory_gib=16, hours=3, base_model="large-v3", method="full"), registry)
    assert not kept.result.fits and kept.config.method == "full"
    assert [advise(hours).method for hours in (9.9, 10, 50, 50.1)] == ["lora", "lora", "lora", "full"]


def test_on_a_t4_the_run_is_in_fp16(registry: ModelRegistry) -> None:
    answer = find_fit(FitQuestion(gpu="T4", base_model=TURBO), registry)
    assert answer.result.fits and answer.config.precision == "fp16"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"gpu": "Voodoo 2"}, "no GPU 'Voodoo 2' in the table: give its memory"),
        ({"memory_gib": -3}, "memory_gib must be between 0 and 100000, got -3"),
        ({"memory_gib": float("nan")}, "memory_gib must be between 0 and 100000"),
        ({"memory_gib": 8, "hours": -1}, "hours must be between 0 and 1000000"),
        ({"memory_gib": 8, "method": "prefix"}, "method must be one of auto, lora"),
        ({"memory_gib": 8, "effective_batch_size": 0}, "effective_batch_size must be between 1 and 1024"),
        ({"memory_gib": 8, "label_length": 449}, "label_length must be between 1 and 448"),
    ],
)
def test_what_cannot_be_is_refused_with_what_is_accepted(
    registry: ModelRegistry, values: dict, sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        find_fit(FitQuestion(**values), registry)


def test_an_unknown_model_is_refused(registry: ModelRegistry) -> None:
    with pytest.raises(ModelNotFoundError):
        find_fit(FitQuestion(memory_gib=8, base_model="large-v3-turbi"), registry)


def test_an_unknown_preset_is_answered_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="8gb, 12gb, 16gb, 24gb, minimal, aggressive, breeze"):
        preset("6gb")


def test_every_claim_has_a_truth_with_our_figures() -> None:
    truths = {claim.key: str(claim.truth) for claim in claims()}
    assert {row.claim_key for row in PRESETS} <= set(truths) and len(truths) == 9
    assert "23.0 GiB" in truths["full"] and "241.7 M" in truths["small"] and "5.75 GiB" in truths["weight"]
    assert truths["square"].endswith("15.6 MiB for 100 tokens of large-v3, 62.5 MiB for 400.")


class OneModel(ModelRegistry):
    """A registry that knows one adapter."""

    def get(self, name: str) -> ModelSpec:
        card = {"config": {"lora_r": 16, "target_modules": ["q_proj", "v_proj"]}}
        base = "openai/whisper-tiny" if name == "mine" else None
        return ModelSpec(name, ModelKind.ADAPTER, ModelSource.TRAINED, name, base_model=base, card=card)


def test_an_adapter_made_here_brings_its_rank_into_a_transcription(settings: Settings) -> None:
    registry = OneModel(settings.models, demo=None, hf_cache=settings.hf_cache)
    plan = inference_plan("mine", registry, num_beams=5)
    usual = [inference_plan("mine", registry, engine=engine).num_beams for engine in ENGINES]
    assert usual == [USUAL_BEAMS, USUAL_BEAMS]
    assert (plan.adapter_rank, plan.adapter_modules, plan.num_beams) == (16, ("q_proj", "v_proj"), 5)
    assert inference_plan("merged", registry).adapter_rank == 0
