"""Options of the engines, as the commands that transcribe share them."""

import argparse

from studio.cli.parsing import Parser
from studio.errors import ConfigError
from studio.options.choices import BITS, ENGINES, FASTER_WHISPER, TRANSFORMERS
from studio.transcription.engine import FIELDS, SEARCH, SPEECH, USUAL_BEAMS, EngineChoice, TranscribeOptions
from studio.transcription.options import USUAL, check_engine, read_options

_DTYPES = tuple(name for name in ENGINES[TRANSFORMERS] if name not in BITS)


def add_engine_options(made: Parser) -> None:
    """Which engine, and in which precision."""
    made.of_schema(FIELDS["engine"], USUAL["engine"])
    precisions = ENGINES[FASTER_WHISPER]
    made.option("compute_type", f"faster-whisper: {', '.join(precisions)}.", known=precisions)
    made.option("dtype", "transformers: float32, float16 or bfloat16.", choices=_DTYPES)
    made.flag("use_8bit", "transformers: weights in 8 bits (bitsandbytes).", aliases=("load_in_8bit",))
    made.flag("use_4bit", "transformers: weights in 4 bits (bitsandbytes).", aliases=("load_in_4bit",))


CLIPS_BEAMS_HELP = f"Beam size (default: {USUAL_BEAMS}; for a test set 1 with transformers)."


def add_transcribe_options(made: Parser) -> None:
    """What is spoken, what is written of it, and how to look for the text."""
    for name in _of(SPEECH):
        made.of_schema(FIELDS[name], USUAL[name])
    made.set_defaults(timestamps=None)  # as the next one says
    made.flag("return_timestamps", "The same as --timestamps segment; False: none.", default=True)
    for name in _of(SEARCH):
        made.of_schema(FIELDS[name], USUAL[name])


def _of(group: str) -> list[str]:
    return [name for name, f in FIELDS.items() if f.metadata["group"] == group]


def choice_of(given: argparse.Namespace) -> EngineChoice:
    """The engine and the precision.

    Raises:
        ConfigError: if an option belongs to the other engine.
    """
    bits = [bits for bits, is_set in (("int8", given.use_8bit), ("int4", given.use_4bit)) if is_set]
    own = [*bits, *([given.dtype] if given.dtype else [])]
    if len(own) > 1:
        raise ConfigError("Give one of --dtype, --use_8bit and --use_4bit: each says how weights are kept.")
    if own and (given.compute_type or given.engine == FASTER_WHISPER):
        raise ConfigError(
            "--dtype, --use_8bit and --use_4bit are options of transformers: with faster-whisper, give "
            "--compute_type."
        )
    if given.compute_type and given.engine == TRANSFORMERS:
        raise ConfigError(
            "--compute_type is an option of faster-whisper: with transformers, give --dtype, --use_8bit or "
            "--use_4bit."
        )
    precision = given.compute_type or (own[0] if own else "auto")
    usual = FASTER_WHISPER if given.compute_type else TRANSFORMERS if own else "auto"
    choice = EngineChoice(usual if given.engine == "auto" else given.engine, precision)
    check_engine(choice)
    return choice


def options_of(given: argparse.Namespace) -> TranscribeOptions:
    """How to transcribe; `given` has what `add_transcribe_options` adds.

    Raises:
        ConfigError: for a value that cannot be used.
    """
    timestamps = given.timestamps or ("segment" if given.return_timestamps else "none")
    return read_options({**vars(given), "timestamps": timestamps})
