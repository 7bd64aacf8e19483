"""The command of openai-whisper and of `whisper-ctranslate2`: what `transcribe` takes of it, and calls it."""

import argparse
import math
from dataclasses import replace
from pathlib import Path

from studio.cli.decoding import choice_of
from studio.cli.parsing import Parser
from studio.errors import ConfigError
from studio.options.foreign import Foreign, switch, value
from studio.transcription import captions
from studio.transcription.engine import EngineChoice
from studio.transcription.options import parse_numbers

_ALL = "all"
"""Each format."""
_HOTTEST = 1.0 + 1e-6
_LOOPS = "a text that repeats itself is searched again at the next temperature"
_SILERO = "speech is found with Silero VAD's own bounds"

_FOREIGN: dict[str, Foreign] = {
    "model_dir": value("models lie in the Hub's cache, which HF_HOME names"),
    "verbose": switch("texts are shown unless files are written, and progress always is", usual=True),
    "best_of": value("one text is sampled at each temperature", "1"),
    "patience": value("a search ends when it has as many texts as beams", "1"),
    "length_penalty": value("beams are ranked by their mean log-probability per token", "1"),
    "carry_initial_prompt": switch("what each window is to be told are --hotwords"),
    "prepend_punctuations": value("a mark goes with the word that it stands at"),
    "append_punctuations": value("a mark goes with the word that it stands at"),
    "highlight_words": switch("captions mark no words; --format json has the times of each"),
    "max_words_per_line": value("--max_line_width says how wide a line may be"),
    "clip_timestamps": value("a recording is transcribed whole", "0"),
    "hallucination_silence_threshold": value("what lies in silence is left out by --vad"),
    # whisper-ctranslate2
    "batched": switch("--batch_size says how many windows are decoded together"),
    "device_index": value("CUDA_VISIBLE_DEVICES says which GPU", "0"),
    "multilingual": switch("with --language auto each part is heard in its own language"),
    "no_repeat_ngram_size": value(_LOOPS, "0"),
    "pretty_json": switch("JSON is written as it is"),
    "print_colors": switch("--format json has the probability of each word"),
    "repetition_penalty": value(_LOOPS, "1"),
    "vad_threshold": value(_SILERO),
    "vad_min_speech_duration_ms": value(_SILERO),
    "vad_max_speech_duration_s": value(_SILERO),
    "vad_min_silence_duration_ms": value(_SILERO),
}
"""Flags that do nothing here: a sentence for each."""


def add_whisper_options(made: Parser) -> None:
    """What says the same as options of `transcribe`, and what does nothing here."""
    made.flag("word_timestamps", "The same as --timestamps word.")
    made.option(
        "temperature_increment_on_fallback",
        "How far the next temperatures are from --temperature and from one another, up to 1; None: no next.",
        kind=_increment,
    )
    made.flag("fp16", "False: weights in float32.", default=True)
    made.option(
        "output_format",
        "The same as --format, but the files go to this folder unless --output_dir names one; all: each.",
        aliases=("f",),
        known=(*captions.FORMATS, _ALL),
    )
    made.foreign(_FOREIGN)


def _increment(text: str) -> float:
    """How far temperatures are apart; infinite for None."""
    apart = math.inf if text.lower() == "none" else float(text)
    if not apart >= 0.01:
        raise argparse.ArgumentTypeError(f"a number from 0.01 on, or None, is needed, got {text!r}")
    return apart


def in_own_words(given: argparse.Namespace) -> argparse.Namespace:
    """The same, with `timestamps`, `temperature`, `format` and `output_dir` as `transcribe` itself has them.

    Raises:
        ConfigError: if both say something, or for a temperature that is no number.
    """
    own: dict[str, str | Path] = {}
    if given.word_timestamps:
        if given.timestamps not in (None, "word"):
            raise ConfigError("Give one of --timestamps and --word_timestamps: they contradict each other.")
        own["timestamps"] = "word"
    if apart := given.temperature_increment_on_fallback:
        temperatures = list(parse_numbers("temperature", given.temperature)[:1])
        while temperatures and temperatures[-1] + apart < _HOTTEST:
            temperatures.append(temperatures[-1] + apart)
        own["temperature"] = ",".join(f"{temperature:g}" for temperature in temperatures)
    if given.output_format:
        if given.format:
            raise ConfigError("Give one of --format and --output_format: both say which files are written.")
        is_all = given.output_format == _ALL
        own["format"] = ",".join(captions.FORMATS) if is_all else given.output_format
        own["output_dir"] = given.output_dir or Path()
    return argparse.Namespace(**{**vars(given), **own})


def engine_asked(given: argparse.Namespace) -> EngineChoice:
    """The engine and the precision, which is float32 with `--fp16 False` unless another is asked for.

    Raises:
        ConfigError: if an option belongs to the other engine.
    """
    choice = choice_of(given)
    return choice if given.fp16 or choice.precision != "auto" else replace(choice, precision="float32")
