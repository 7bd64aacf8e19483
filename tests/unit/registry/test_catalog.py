"""The catalogue of released models."""

import pytest

from studio.registry.catalog import RELEASED, find_released
from studio.registry.languages import LANGUAGES
from studio.registry.listing import few_languages
from studio.registry.parameters import count_parameters
from studio.registry.spec import ModelKind, ModelSource, ModelSpec


def made_of(base: str, languages: object) -> ModelSpec:
    """A model that was trained from a base."""
    card = {"languages": languages}
    return ModelSpec("mine", ModelKind.ADAPTER, ModelSource.TRAINED, "mine", base_model=base, card=card)


PUBLISHED = {
    "openai/whisper-tiny": 37_760_640,
    "openai/whisper-tiny.en": 37_760_256,
    "openai/whisper-base": 72_593_920,
    "openai/whisper-small": 241_734_912,
    "openai/whisper-medium": 763_857_920,
    "openai/whisper-large-v2": 1_543_304_960,
    "openai/whisper-large-v3": 1_543_490_560,
    "openai/whisper-large-v3-turbo": 808_878_080,
    "MediaTek-Research/Breeze-ASR-26": 1_543_304_960,
    "BELLE-2/Belle-whisper-large-v3-zh": 1_543_490_560,
    "BELLE-2/Belle-whisper-large-v3-turbo-zh": 808_878_080,
    "KBLab/kb-whisper-tiny": 37_760_640,
    "KBLab/kb-whisper-large": 1_543_490_560,
    "NbAiLab/nb-whisper-medium": 763_857_920,
    "ivrit-ai/whisper-large-v3": 1_543_490_560,
    "ivrit-ai/whisper-large-v3-turbo": 808_878_080,
    "distil-whisper/distil-small.en": 166_000_000,
    "distil-whisper/distil-medium.en": 394_000_000,
    "distil-whisper/distil-large-v2": 756_000_000,
    "distil-whisper/distil-large-v3": 756_000_000,
    "distil-whisper/distil-large-v3.5": 756_000_000,
}
"""Parameters as the Hub counts them in the files; of distilled models, the millions of their cards;
those tuned from a Whisper have as many as it."""


@pytest.mark.parametrize(("hub_id", "parameters"), PUBLISHED.items())
def test_dimensions_give_the_published_number_of_parameters(hub_id: str, parameters: int) -> None:
    model = find_released(hub_id)
    assert model is not None and model.dimensions is not None
    assert round(count_parameters(model.dimensions), -6 if "distil" in hub_id else 0) == parameters


@pytest.mark.parametrize(
    ("alias", "hub_id"),
    [
        ("tiny", "openai/whisper-tiny"),
        ("Large", "openai/whisper-large"),
        ("large-v1", "openai/whisper-large"),
        ("turbo", "openai/whisper-large-v3-turbo"),
        ("whisper-large-v3", "openai/whisper-large-v3"),
        ("openai/whisper-large-v3", "openai/whisper-large-v3"),
        ("distil-large-v3.5", "distil-whisper/distil-large-v3.5"),
        ("breeze-asr-25", "MediaTek-Research/Breeze-ASR-25"),
        ("breeze-asr-26", "MediaTek-Research/Breeze-ASR-26"),
        ("Belle-whisper-large-v3-zh", "BELLE-2/Belle-whisper-large-v3-zh"),
        ("kotoba-whisper-v2.2", "kotoba-tech/kotoba-whisper-v2.2"),
        ("kb-whisper-small", "KBLab/kb-whisper-small"),
        ("nb-whisper-large", "NbAiLab/nb-whisper-large"),
        ("ivrit-large-v3", "ivrit-ai/whisper-large-v3"),
        ("ivrit-ai/whisper-large-v3-turbo", "ivrit-ai/whisper-large-v3-turbo"),
        ("whisper-large-v3-turbo", "openai/whisper-large-v3-turbo"),
    ],
)
def test_every_model_answers_to_the_names_people_type(alias: str, hub_id: str) -> None:
    model = find_released(alias)
    assert model is not None
    assert model.id == hub_id


def test_no_name_belongs_to_two_models() -> None:
    names = [(name.casefold(), model.id) for model in RELEASED for name in model.names]
    assert len({name for name, _ in set(names)}) == len(set(names))


def test_english_models_have_no_language_tokens() -> None:
    assert {model.id for model in RELEASED if not model.is_multilingual} == {
        model.id for model in RELEASED if model.id.endswith(".en")
    }


def test_only_models_of_the_third_generation_know_cantonese() -> None:
    knows = {model.id for model in RELEASED if "yue" in model.languages}
    assert knows == {"openai/whisper-large-v3", "openai/whisper-large-v3-turbo"}


def test_languages_are_those_of_the_tokenizer_in_its_order() -> None:
    from transformers.models.whisper.tokenization_whisper import LANGUAGES as OF_TOKENIZER

    assert list(LANGUAGES.items()) == list(OF_TOKENIZER.items())


def test_a_released_model_is_a_row_without_a_folder() -> None:
    spec = RELEASED[0].to_spec()
    assert spec.source is ModelSource.RELEASED
    assert not spec.is_local
    assert not spec.problem


def test_what_is_not_known_of_a_model_is_left_open_until_its_download() -> None:
    unknown = [model for model in RELEASED if model.dimensions is None]
    assert [model.id for model in unknown] == ["NbAiLab/nb-whisper-large"]
    assert unknown[0].is_multilingual
    assert unknown[0].to_spec().dimensions is None


def test_every_language_is_one_of_whisper_s() -> None:
    assert {code for model in RELEASED for code in model.languages} <= set(LANGUAGES)


@pytest.mark.parametrize(
    ("spec", "few"),
    [
        (ModelSpec("demo", ModelKind.BASE, ModelSource.DEMO, "Demo model"), ("en",)),
        (ModelSpec("mine", ModelKind.ADAPTER, ModelSource.TRAINED, "mine", base_model="demo"), ("en",)),
        (made_of("kotoba-tech/kotoba-whisper-v2.0", ["zh", "ja", 7, "?"]), ("ja", "zh")),
        (made_of("openai/whisper-small", ["zh"]), ()),
        (made_of("kotoba-tech/kotoba-whisper-v2.0", "zh"), ("ja",)),
    ],
)
def test_a_model_knows_the_few_languages_of_its_base_and_its_own(
    spec: ModelSpec, few: tuple[str, ...]
) -> None:
    assert tuple(sorted(few_languages(spec))) == few
