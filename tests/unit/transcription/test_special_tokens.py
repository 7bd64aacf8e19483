"""What steers a Whisper is read from its tokenizer, and prompts are made of it."""

from typing import Any

import pytest

from studio.errors import ConfigError, ModelBrokenError
from studio.transcription.special_tokens import SpecialTokens

NAMES = (
    *("endoftext", "startoftranscript", "en", "zh", "translate", "transcribe", "startoflm"),
    *("startofprev", "nocaptions", "notimestamps", "0.00", "0.02"),
)


class Vocabulary:
    """The added tokens of a tokenizer, from id 100 on."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.ids = {f"<|{name}|>": 100 + place for place, name in enumerate(names)}

    def get_added_vocab(self) -> dict[str, int]:
        return self.ids


def tokens(names: tuple[str, ...] = NAMES, *, is_multilingual: bool = True) -> SpecialTokens:
    tokenizer: Any = Vocabulary(names)
    return SpecialTokens.of(tokenizer, is_multilingual=is_multilingual)


def test_a_multilingual_prompt_has_language_and_task() -> None:
    found = tokens()
    assert found.languages == {"en": 102, "zh": 103}
    assert found.prompt("zh", "transcribe", with_times=True) == [101, 103, 105]
    assert found.prompt("en", "translate", with_times=False) == [101, 102, 104, 109]
    assert (found.previous, found.no_speech, found.first_time) == (107, 108, 110)


def test_an_english_only_prompt_has_neither() -> None:
    found = tokens(is_multilingual=False)
    assert found.languages == {}
    assert found.prompt("en", "transcribe", with_times=True) == [101]
    with pytest.raises(ConfigError, match="nothing to translate"):
        found.prompt("en", "translate", with_times=True)


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(ConfigError, match="task must be one of transcribe, translate, got 'summarize'"):
        tokens().prompt("en", "summarize", with_times=True)


def test_time_tokens_tell_seconds() -> None:
    found = tokens()
    assert found.is_time(110)
    assert not found.is_time(109)
    assert found.seconds(110 + 75) == pytest.approx(1.5)


def test_a_tokenizer_without_a_needed_token_is_broken() -> None:
    names = tuple(name for name in NAMES if name != "notimestamps")
    with pytest.raises(ModelBrokenError, match="lacks the token <|notimestamps|>".replace("|", r"\|")):
        tokens(names)
