"""Whisper models that others released: one row a model, everything else is derived from it."""

from dataclasses import dataclass

from studio.registry.languages import LANGUAGES
from studio.registry.spec import ModelDimensions, ModelKind, ModelSource, ModelSpec
from studio.whisper.constants import ENGLISH_VOCABULARY, MULTILINGUAL_VOCABULARY, V3_VOCABULARY

_LANGUAGES_OF: dict[int, tuple[str, ...]] = {
    ENGLISH_VOCABULARY: ("en",),
    MULTILINGUAL_VOCABULARY: tuple(LANGUAGES)[:-1],
    V3_VOCABULARY: tuple(LANGUAGES),
}


@dataclass(frozen=True)
class ReleasedModel:
    """One model on the Hugging Face Hub."""

    id: str
    """Its Hub id."""
    title: str
    aliases: tuple[str, ...]
    """Other names people type, besides the Hub id and its last part."""
    dimensions: ModelDimensions | None
    """None where its own pages were not seen to say it: its download does."""
    languages: tuple[str, ...]
    """Codes of what it understands."""
    note: str
    """One line for people who choose."""
    license: str = ""
    """As its page on the Hub names it; empty: look there."""
    has_own_last_part: bool = True
    """Whether the last part of its id alone means this model."""

    @property
    def is_multilingual(self) -> bool:
        """Whether it has language tokens; distilled models have them, although trained on English."""
        return self.dimensions is None or self.dimensions.vocab_size != ENGLISH_VOCABULARY

    @property
    def few_languages(self) -> tuple[str, ...]:
        """Codes of what it was made for; empty where that is all that a Whisper knows."""
        return () if len(self.languages) > len(LANGUAGES) // 2 else self.languages

    @property
    def names(self) -> tuple[str, ...]:
        """Everything it answers to."""
        last_part = (self.id.split("/")[-1],) if self.has_own_last_part else ()
        return (self.id, *last_part, *self.aliases)

    def to_spec(self) -> ModelSpec:
        """The registry's row while nothing of it is on this disk."""
        return ModelSpec(
            id=self.id,
            kind=ModelKind.BASE,
            source=ModelSource.RELEASED,
            title=self.title,
            dimensions=self.dimensions,
            is_multilingual=self.is_multilingual,
        )


def _shape(
    d_model: int, encoder_layers: int, decoder_layers: int, vocab_size: int, num_mel_bins: int = 80
) -> ModelDimensions:
    """Whisper's proportions: heads of 64, a feed-forward of four times the width."""
    return ModelDimensions(
        d_model=d_model,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        encoder_attention_heads=d_model // 64,
        decoder_attention_heads=d_model // 64,
        encoder_ffn_dim=4 * d_model,
        decoder_ffn_dim=4 * d_model,
        vocab_size=vocab_size,
        num_mel_bins=num_mel_bins,
    )


_SIZES = {
    "tiny": _shape(384, 4, 4, MULTILINGUAL_VOCABULARY),
    "base": _shape(512, 6, 6, MULTILINGUAL_VOCABULARY),
    "small": _shape(768, 12, 12, MULTILINGUAL_VOCABULARY),
    "medium": _shape(1024, 24, 24, MULTILINGUAL_VOCABULARY),
}
_LARGE = _shape(1280, 32, 32, MULTILINGUAL_VOCABULARY)
_LARGE_V3 = _shape(1280, 32, 32, V3_VOCABULARY, 128)
_TURBO = _shape(1280, 32, 4, V3_VOCABULARY, 128)
_DISTIL_V3 = _shape(1280, 32, 2, V3_VOCABULARY, 128)


def _openai(
    name: str, shape: ModelDimensions, note: str, *aliases: str, license: str = "apache-2.0"
) -> ReleasedModel:
    languages = _LANGUAGES_OF[shape.vocab_size]
    return ReleasedModel(
        f"openai/whisper-{name}", f"Whisper {name}", (name, *aliases), shape, languages, note, license
    )


def _distil(name: str, shape: ModelDimensions, note: str) -> ReleasedModel:
    hub_id, title = f"distil-whisper/{name}", f"Distil-Whisper {name}"
    return ReleasedModel(hub_id, title, (), shape, ("en",), note, "mit")


def _tuned(
    hub_id: str,
    title: str,
    shape: ModelDimensions | None,
    languages: tuple[str, ...],
    note: str,
    *aliases: str,
    has_own_last_part: bool = True,
) -> ReleasedModel:
    """A Whisper that somebody tuned to a language and released under Apache 2.0."""
    return ReleasedModel(
        hub_id, title, aliases, shape, languages, note, "apache-2.0", has_own_last_part=has_own_last_part
    )


RELEASED: tuple[ReleasedModel, ...] = (
    _openai("tiny", _SIZES["tiny"], "Fastest; for a first try."),
    _openai("tiny.en", _shape(384, 4, 4, ENGLISH_VOCABULARY), "Fastest, English only."),
    _openai("base", _SIZES["base"], "Small and fast."),
    _openai("base.en", _shape(512, 6, 6, ENGLISH_VOCABULARY), "Small and fast, English only."),
    _openai("small", _SIZES["small"], "A good base for one language."),
    _openai("small.en", _shape(768, 12, 12, ENGLISH_VOCABULARY), "A good base for English."),
    _openai("medium", _SIZES["medium"], "Accurate and slow."),
    _openai("medium.en", _shape(1024, 24, 24, ENGLISH_VOCABULARY), "Accurate and slow, English only."),
    _openai("large", _LARGE, "The first large model; prefer large-v3.", "large-v1", "whisper-large-v1"),
    _openai("large-v2", _LARGE, "The second large model."),
    _openai("large-v3", _LARGE_V3, "The most accurate."),
    _openai(
        "large-v3-turbo",
        _TURBO,
        "Nearly as accurate as large-v3 and several times as fast; does not translate.",
        "turbo",
        "whisper-turbo",
        license="mit",
    ),
    _distil("distil-small.en", _shape(768, 12, 4, ENGLISH_VOCABULARY), "Small, English only."),
    _distil("distil-medium.en", _shape(1024, 24, 2, ENGLISH_VOCABULARY), "Medium, English only."),
    _distil("distil-large-v2", _shape(1280, 32, 2, MULTILINGUAL_VOCABULARY), "Large, trained on English."),
    _distil("distil-large-v3", _DISTIL_V3, "Large, trained on English, good at long recordings."),
    _distil("distil-large-v3.5", _DISTIL_V3, "Large, trained on four times as much English."),
    _tuned(
        "MediaTek-Research/Breeze-ASR-25",
        "Breeze ASR 25",
        _LARGE,
        ("zh", "en"),
        "Taiwanese Mandarin, also mixed with English; writes traditional characters.",
        "breeze",
    ),
    _tuned(
        "MediaTek-Research/Breeze-ASR-26",
        "Breeze ASR 26",
        _LARGE,
        ("zh",),
        "Taiwanese Hokkien, written as Mandarin.",
    ),
    _tuned("BELLE-2/Belle-whisper-large-v3-zh", "Belle Whisper large-v3 zh", _LARGE_V3, ("zh",), "Mandarin."),
    _tuned(
        "BELLE-2/Belle-whisper-large-v3-turbo-zh",
        "Belle Whisper large-v3-turbo zh",
        _TURBO,
        ("zh",),
        "Mandarin, several times as fast.",
    ),
    _tuned("kotoba-tech/kotoba-whisper-v2.0", "Kotoba Whisper v2.0", _DISTIL_V3, ("ja",), "Japanese, fast."),
    _tuned(
        "kotoba-tech/kotoba-whisper-v2.2",
        "Kotoba Whisper v2.2",
        _DISTIL_V3,
        ("ja",),
        "Japanese: version 2.0, whose pipeline for speakers and punctuation is not run here.",
    ),
    *(
        _tuned(f"KBLab/kb-whisper-{size}", f"KB Whisper {size}", shape, ("sv",), "Swedish.")
        for size, shape in {**_SIZES, "large": _LARGE_V3}.items()
    ),
    *(
        _tuned(
            f"NbAiLab/nb-whisper-{size}",
            f"NB Whisper {size}",
            _SIZES.get(size),
            ("no", "nn", "en"),
            "Norwegian.",
        )
        for size in (*_SIZES, "large")
    ),
    *(
        _tuned(
            f"ivrit-ai/whisper-{size}",
            f"ivrit.ai Whisper {size}",
            shape,
            ("he",),
            "Hebrew: set the language, since it no longer detects it well.",
            f"ivrit-{size}",
            has_own_last_part=False,
        )
        for size, shape in (("large-v3", _LARGE_V3), ("large-v3-turbo", _TURBO))
    ),
)


def find_released(name: str) -> ReleasedModel | None:
    """The row that answers to `name` (Hub id, its last part, or an alias; case does not matter)."""
    return _BY_NAME.get(name.casefold())


_BY_NAME = {name.casefold(): model for model in RELEASED for name in model.names}
