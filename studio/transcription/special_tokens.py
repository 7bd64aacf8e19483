"""The special tokens of a Whisper, read from its tokenizer, and the prompts that are made of them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from studio.errors import ConfigError, ModelBrokenError
from studio.options.checks import check_choice
from studio.options.choices import TASKS
from studio.registry.languages import LANGUAGES

SECONDS_PER_TOKEN = 0.02
"""The grid of the time tokens, and of the encoder's positions."""
_TIME_TOKENS = 1501


@dataclass(frozen=True)
class SpecialTokens:
    """Ids of the tokens that steer a Whisper."""

    end: int
    """`<|endoftext|>`; every text token is below it."""
    start: int
    """`<|startoftranscript|>`."""
    no_timestamps: int
    languages: Mapping[str, int]
    """Code → id, in the tokenizer's order; empty for an English-only model."""
    tasks: Mapping[str, int]
    """Empty for an English-only model."""
    previous: int | None = None
    """`<|startofprev|>`, before the text that came earlier; some small models lack it."""

    @classmethod
    def of(cls, tokenizer: Any, *, is_multilingual: bool) -> "SpecialTokens":
        """Reads them from a `WhisperTokenizer`.

        Raises:
            ModelBrokenError: if one that every Whisper has is missing.
        """
        return cls.from_ids(tokenizer.get_added_vocab(), is_multilingual=is_multilingual)

    @classmethod
    def from_ids(cls, ids: Mapping[str, int], *, is_multilingual: bool) -> "SpecialTokens":
        """The same from the added tokens of any tokenizer: token → id.

        Raises:
            ModelBrokenError: if one that every Whisper has is missing.
        """
        for name in ("endoftext", "startoftranscript", "notimestamps", *(TASKS if is_multilingual else ())):
            if f"<|{name}|>" not in ids:
                raise ModelBrokenError(
                    "The tokenizer lacks the token {token}: copy the tokenizer's files from the model that "
                    "this one was trained from.",
                    token=f"<|{name}|>",
                )
        inner = sorted((id_, token[2:-2]) for token, id_ in ids.items() if token[:2] == "<|")
        return cls(
            end=ids["<|endoftext|>"],
            start=ids["<|startoftranscript|>"],
            no_timestamps=ids["<|notimestamps|>"],
            languages={code: id_ for id_, code in inner if code in LANGUAGES} if is_multilingual else {},
            tasks={task: ids[f"<|{task}|>"] for task in TASKS} if is_multilingual else {},
            previous=ids.get("<|startofprev|>"),
        )

    @property
    def no_speech(self) -> int:
        """`<|nospeech|>`, which early tokenizers spell `<|nocaptions|>`."""
        return self.no_timestamps - 1

    @property
    def first_time(self) -> int:
        """`<|0.00|>`."""
        return self.no_timestamps + 1

    @property
    def last_time(self) -> int:
        """`<|30.00|>`."""
        return self.first_time + _TIME_TOKENS - 1

    def is_time(self, token: int) -> bool:
        """Whether it is one of the 1501 time tokens."""
        return self.first_time <= token <= self.last_time

    def seconds(self, token: int) -> float:
        """What a time token says, from the beginning of its window."""
        return (token - self.first_time) * SECONDS_PER_TOKEN

    def time_after(self, seconds: float) -> int:
        """The first time token that is not earlier, at most the last there is."""
        return min(self.last_time, self.first_time + math.ceil(seconds / SECONDS_PER_TOKEN))

    def prompt(self, language: str, task: str, *, with_times: bool) -> list[int]:
        """What decoding starts from: start, and on a multilingual model language and task.

        Raises:
            ConfigError: if the model lacks the task.
        """
        tokens = [self.start]
        if self.languages:
            tokens += [self.languages[language], self.tasks[self.checked_task(task)]]
        else:
            self.checked_task(task)
        return tokens if with_times else [*tokens, self.no_timestamps]

    def checked_task(self, task: str) -> str:
        """`task`, if the model has it.

        Raises:
            ConfigError: if it has not.
        """
        check_choice("task", task, TASKS)
        if task == "translate" and not self.languages:
            raise ConfigError(
                "This model knows English only and has nothing to translate: choose a multilingual model, or "
                "the task transcribe."
            )
        return task
