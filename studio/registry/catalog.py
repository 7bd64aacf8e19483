"""Whisper models that others released: one row a model, everything else is derived from it."""

from dataclasses import dataclass

from studio.registry.languages import LANGUAGES
from studio.registry.parameters import count_parameters
from studio.registry.spec import ModelDimensions, ModelKind, ModelSource, ModelSpec

_ENGLISH_VOCABULARY = 51864
_MULTILINGUAL_VOCABULARY = 51865
_V3_VOCABULARY = 51866
_LANGUAGES_OF: dict[int, tuple[str, ...]] = {
    _ENGLISH_VOCABULARY: ("en",),
    _MULTILINGUAL_VOCABULARY: tuple(LANGUAGES)[:-1],
    _V3_VOCABULARY: tuple(LANGUAGES),
}


@dataclass(frozen=True)
class ReleasedModel:
    """One model on the Hugging Face Hub."""

    id: str
    """Its Hub id."""
    title: str
    aliases: tuple[str, ...]
    """Other names people type, besides the Hub id and its last part."""
    dimensions: ModelDimensions
    languages: tuple[str, ...]
    """Codes of what it understands."""
    note: str
    """One line for people who choose."""

    @property
    def parameters(self) -> int:
        """Exact number of parameters."""
        return count_parameters(self.dimensions)

    @property
    def is_multilingual(self) -> bool:
        """Whether it has language tokens; distilled models have them, although trained on English."""
        return self.dimensions.vocab_size != _ENGLISH_VOCABULARY

    @property
    def names(self) -> tuple[str, ...]:
        """Everything it answers to."""
        return (self.id, self.id.split("/")[-1], *self.aliases)

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


_LARGE = _shape(1280, 32, 32, _MULTILINGUAL_VOCABULARY)
_DISTIL_V3 = _shape(1280, 32, 2, _V3_VOCABULARY, 128)


def _openai(name: str, shape: ModelDimensions, note: str, *aliases: str) -> ReleasedModel:
    languages = _LANGUAGES_OF[shape.vocab_size]
    return ReleasedModel(
        f"openai/whisper-{name}", f"Whisper {name}", (name, *aliases), shape, languages, note
    )


def _distil(name: str, shape: ModelDimensions, note: str) -> ReleasedModel:
    return ReleasedModel(f"distil-whisper/{name}", f"Distil-Whisper {name}", (), shape, ("en",), note)


RELEASED: tuple[ReleasedModel, ...] = (
    _openai("tiny", _shape(384, 4, 4, _MULTILINGUAL_VOCABULARY), "Fastest; for a first try."),
    _openai("tiny.en", _shape(384, 4, 4, _ENGLISH_VOCABULARY), "Fastest, English only."),
    _openai("base", _shape(512, 6, 6, _MULTILINGUAL_VOCABULARY), "Small and fast."),
    _openai("base.en", _shape(512, 6, 6, _ENGLISH_VOCABULARY), "Small and fast, English only."),
    _openai("small", _shape(768, 12, 12, _MULTILINGUAL_VOCABULARY), "A good base for one language."),
    _openai("small.en", _shape(768, 12, 12, _ENGLISH_VOCABULARY), "A good base for English."),
    _openai("medium", _shape(1024, 24, 24, _MULTILINGUAL_VOCABULARY), "Accurate and slow."),
    _openai("medium.en", _shape(1024, 24, 24, _ENGLISH_VOCABULARY), "Accurate and slow, English only."),
    _openai("large", _LARGE, "The first large model; prefer large-v3.", "large-v1", "whisper-large-v1"),
    _openai("large-v2", _LARGE, "The second large model."),
    _openai("large-v3", _shape(1280, 32, 32, _V3_VOCABULARY, 128), "The most accurate."),
    _openai(
        "large-v3-turbo",
        _shape(1280, 32, 4, _V3_VOCABULARY, 128),
        "Nearly as accurate as large-v3 and several times as fast; does not translate.",
        "turbo",
        "whisper-turbo",
    ),
    _distil("distil-small.en", _shape(768, 12, 4, _ENGLISH_VOCABULARY), "Small, English only."),
    _distil("distil-medium.en", _shape(1024, 24, 2, _ENGLISH_VOCABULARY), "Medium, English only."),
    _distil("distil-large-v2", _shape(1280, 32, 2, _MULTILINGUAL_VOCABULARY), "Large, trained on English."),
    _distil("distil-large-v3", _DISTIL_V3, "Large, trained on English, good at long recordings."),
    _distil("distil-large-v3.5", _DISTIL_V3, "Large, trained on four times as much English."),
    ReleasedModel(
        "MediaTek-Research/Breeze-ASR-25",
        "Breeze ASR 25",
        ("breeze-asr-25", "breeze"),
        _LARGE,
        ("zh", "en"),
        "Taiwanese Mandarin, also mixed with English; writes traditional characters.",
    ),
)


def find_released(name: str) -> ReleasedModel | None:
    """The row that answers to `name` (Hub id, its last part, or an alias; case does not matter)."""
    return _BY_NAME.get(name.casefold())


_BY_NAME = {name.casefold(): model for model in RELEASED for name in model.names}
