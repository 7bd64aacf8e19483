"""Options of the engines, as the commands that transcribe share them."""

import argparse
from dataclasses import fields

from studio.cli.parsing import Parser
from studio.errors import ConfigError
from studio.options.choices import BITS, ENGINES, FASTER_WHISPER, TASKS, TRANSFORMERS
from studio.transcription.chinese_script import SCRIPTS
from studio.transcription.engine import (
    AUDIO_CONTEXTS,
    TIMESTAMPS,
    USUAL_BEAMS,
    EngineChoice,
    TranscribeOptions,
)
from studio.transcription.options import check_engine, check_values, parse_numbers, parse_tokens

_DTYPES = tuple(name for name in ENGINES[TRANSFORMERS] if name not in BITS)


def add_engine_options(made: Parser) -> None:
    """Which engine, and in which precision."""
    made.option(
        "engine",
        "Inference engine (default: that of the model's files).",
        choices=("auto", *ENGINES),
        default="auto",
    )
    precisions = ENGINES[FASTER_WHISPER]
    made.option("compute_type", f"faster-whisper: {', '.join(precisions)}.", known=precisions)
    made.option("dtype", "transformers: float32, float16 or bfloat16.", choices=_DTYPES)
    made.flag("use_8bit", "transformers: weights in 8 bits (bitsandbytes).", aliases=("load_in_8bit",))
    made.flag("use_4bit", "transformers: weights in 4 bits (bitsandbytes).", aliases=("load_in_4bit",))


BEAMS_HELP = f"Beam size (default: {USUAL_BEAMS})."
CLIPS_BEAMS_HELP = f"Beam size (default: {USUAL_BEAMS}; for a test set 1 with transformers)."


def add_decoding_options(made: Parser) -> None:
    """How to look for the text."""
    usual = TranscribeOptions()
    made.option(
        "num_beams",
        BEAMS_HELP,
        aliases=("beam_size",),
        kind=int,
        default=0,
    )
    made.option(
        "temperature",
        "The first is used, the next when a text repeats itself or is unsure.",
        default=",".join(f"{value:g}" for value in usual.temperature),
    )
    made.option("initial_prompt", "Prompt: shows the style, and how names are spelled.", default="")
    made.flag("truncate_prompt", "Use the end of a prompt that is too long, instead of refusing it.")
    made.option("hotwords", "Words to expect in every window.", default="")
    made.flag(
        "condition_on_prev_tokens",
        "Condition each window on the text before it (not with a batch size above 1).",
        aliases=("condition_on_previous_text",),
        default=True,
    )
    made.option(
        "no_speech_threshold",
        "Above it, an unsure text is dropped as silence.",
        kind=float,
        default=usual.no_speech_threshold,
    )
    made.option(
        "compression_ratio_threshold",
        "Above it, a text counts as repetitive.",
        kind=float,
        default=usual.compression_ratio_threshold,
    )
    made.option(
        "logprob_threshold",
        "Below it, a text counts as unsure.",
        aliases=("log_prob_threshold",),
        kind=float,
        default=usual.logprob_threshold,
    )
    made.option("suppress_tokens", "Never written: ids, none, or -1 for the model's own list.", default="-1")
    made.option("max_new_tokens", "Longest text of a window; 0: no limit.", kind=int, default=0)
    made.flag("vad", "Skip parts without speech.", aliases=("vad_filter",), default=True)
    made.option("batch_size", "Windows decoded together; 0: one after the other.", kind=int, default=0)


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
    """How to transcribe; `given` has the options of this module, `language`, `task` and those of times.

    Raises:
        ConfigError: for a value that cannot be used, or that the engine lacks.
    """
    values = {option.name: getattr(given, option.name) for option in fields(TranscribeOptions)}
    values["timestamps"] = given.timestamps or ("segment" if given.return_timestamps else "none")
    values["temperature"] = parse_numbers("temperature", given.temperature)
    values["suppress_tokens"] = parse_tokens(given.suppress_tokens)
    options = TranscribeOptions(**values)
    check_values(options)
    return options


def add_listening_options(made: Parser) -> None:
    """Language, task and times."""
    made.option("language", "Name or code; auto detects it.", default="auto")
    made.option("task", "Transcribe, or translate to English.", choices=TASKS, default="transcribe")
    made.option("timestamps", "Times in the result (default: segment).", choices=TIMESTAMPS)
    made.option(
        "audio_context",
        "Encoder input length: 30 seconds (full) or the audio's own length (short); auto: as "
        "the model was trained.",
        choices=AUDIO_CONTEXTS,
        default="auto",
    )
    made.option(
        "chinese_script",
        "Chinese script: auto keeps to the one that prevails in the recording.",
        choices=SCRIPTS,
        default="auto",
    )
    made.flag("return_timestamps", "The same as --timestamps segment; False: none.", default=True)
