"""What was chosen, read as people write it; what a model or an engine lacks of it is told in a sentence."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from studio.errors import ConfigError
from studio.messages import Message
from studio.options.checks import check_choice
from studio.options.choices import ENGINES
from studio.options.values import whole_number
from studio.transcription.engine import FIELDS, EngineChoice, TranscribeOptions

BATCHED_WINDOWS_ALONE = Message("Windows that are decoded together cannot be conditioned on previous text.")

USUAL: dict[str, Any] = {
    **{name: f.default for name, f in FIELDS.items()},
    "temperature": ", ".join(f"{value:g}" for value in TranscribeOptions().temperature),
    "suppress_tokens": "-1",
}
"""Option → its usual value, lists as people write them."""


def read_options(values: Mapping[str, Any]) -> TranscribeOptions:
    """Options by name, lists as people write them; one that is missing is as usual, what else is there stays
    aside.

    Raises:
        ConfigError: for a value that cannot be used.
    """
    given = {f.name: values.get(f.name, USUAL[f.name]) for f in fields(TranscribeOptions)}
    given["temperature"] = parse_numbers("temperature", str(given["temperature"]))
    given["suppress_tokens"] = parse_tokens(str(given["suppress_tokens"] or ""))
    return TranscribeOptions(**given)


def check_engine(choice: EngineChoice) -> None:
    """Whether there is such an engine, and such a precision of it.

    Raises:
        ConfigError: if there is not.
    """
    check_choice("engine", choice.engine, ("auto", *ENGINES))
    engines = ENGINES if choice.engine == "auto" else (choice.engine,)
    known = dict.fromkeys(("auto", *(name for engine in engines for name in ENGINES[engine])))
    if choice.precision not in known:
        raise ConfigError(
            "The engine {engine} has no precision {given!r}: choose one of {known}.",
            engine=choice.engine,
            given=choice.precision,
            known=", ".join(known),
        )


def check_suppressed(options: TranscribeOptions, vocabulary: int) -> None:
    """Whether the tokens to suppress are there.

    Raises:
        ConfigError: if one is not.
    """
    for token in options.suppress_tokens or ():
        if not 0 <= token < vocabulary:
            raise ConfigError(
                "suppress_tokens has {token}, and this model's tokens are 0 to {last}.",
                token=token,
                last=vocabulary - 1,
            )


def check_prompt(options: TranscribeOptions, tokens: int, limit: int, *, has_place: bool) -> None:
    """Whether the text before and the hotwords, together `tokens` long, have a place in the model's prompt.

    `has_place` tells whether the model has the token that such text begins with.

    Raises:
        ConfigError: if they have not.
    """
    if tokens and not has_place:
        raise ConfigError(
            "This model takes no {name} and no hotwords: leave them empty.", name="initial_prompt"
        )
    if tokens > limit:
        raise ConfigError(
            "{name} and hotwords have {tokens} tokens together, and this model takes {limit}: shorten them.",
            name="initial_prompt",
            tokens=tokens,
            limit=limit,
        )


def parse_numbers(name: str, text: str) -> tuple[float, ...]:
    """`"0, 0.2"` → (0.0, 0.2); `name` is what the numbers are of.

    Raises:
        ConfigError: if there is anything else in it.
    """
    try:
        return tuple(float(part) for part in text.replace(",", " ").split())
    except ValueError as error:
        raise ConfigError(
            "{name} takes numbers with commas between them, got {given!r}.", name=name, given=text
        ) from error


def parse_tokens(text: str) -> tuple[int, ...] | None:
    """Tokens to suppress: none for `none`, those that the model names (None) for nothing or `-1`.

    Raises:
        ConfigError: if there is anything else in it.
    """
    if text.strip() in ("", "-1"):
        return None
    if text.strip().lower() == "none":
        return ()
    name = "suppress_tokens"
    return tuple(whole_number(name, number) for number in parse_numbers(name, text))
