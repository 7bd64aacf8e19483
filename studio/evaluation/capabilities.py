"""What did fine-tuning break? A few measured checks of a model beside its base.

Timestamps, recordings longer than a window, silence, which language is heard, and languages that were not
tuned: what tuning on short clips of one language is known to take away. Each check is a number that should be
high; the tuned model passes where it does not fall clearly below its base.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.dataset.example import Example
from studio.errors import DataError
from studio.evaluation.metrics import error_rates
from studio.transcription.engine import ShouldStop, TranscribeOptions
from studio.transcription.languages import resolve_language
from studio.transcription.model_cache import ModelCache

if TYPE_CHECKING:
    from studio.transcription.transcriber import Transcriber

SCHEMA_VERSION = 1
CHECKS = ("timestamps", "long_form", "silence", "language", "other_languages")
TOLERANCE = 0.15
"""A share that falls by no more than this is not a loss: the clips are few."""
_CLIPS = 8
"""One of so many is less than `TOLERANCE`."""
_ROUNDING = 1e-9
_LONG_SECONDS = 45.0
_PAUSE_SECONDS = 0.5
_SILENCE_SECONDS = 10.0
_MOST_TOKENS = 96
"""A window: enough for what is said in it, and an end to what is not."""

Samples = NDArray[np.float32]


@dataclass(frozen=True)
class Capability:
    """One check; shares between 0 and 1, 1 is best."""

    check: str
    """One of `CHECKS`: clips with plausible times; words of a long recording that are right; silent windows
    that stay empty; clips whose language is the one they have; characters that are right in clips of other
    languages than the tuned ones."""
    base: float
    tuned: float
    clips: int = 0
    """How many clips were counted; 0 where the share is none of clips."""

    @property
    def verdict(self) -> str:
        """`better`, `kept` or `worse`, as far as can be told: of few clips, one is chance."""
        chance = max(TOLERANCE, 1 / self.clips) if self.clips else TOLERANCE
        # Of a share that is small itself, more than half is a loss.
        if self.base - self.tuned > min(chance, self.base / 2) + _ROUNDING:
            return "worse"
        return "better" if self.tuned - self.base > chance + _ROUNDING else "kept"

    @property
    def is_kept(self) -> bool:
        """Whether the tuned model is not clearly worse."""
        return self.verdict != "worse"


def verdict_of(check: Mapping[str, Any]) -> str:
    """The verdict in a check's JSON; older cards say only whether it was kept."""
    return str(check.get("verdict") or ("kept" if check["is_kept"] else "worse"))


@dataclass(frozen=True)
class CapabilityReport:
    """All checks of a model that could be made."""

    model: str
    base_model: str
    checks: tuple[Capability, ...]

    @property
    def lost(self) -> tuple[str, ...]:
        """Checks that the tuned model is clearly worse in."""
        return tuple(row.check for row in self.checks if not row.is_kept)

    def to_json(self) -> dict[str, Any]:
        """For cards and `--json`."""
        rows = [{**asdict(row), "is_kept": row.is_kept, "verdict": row.verdict} for row in self.checks]
        return {
            "schema_version": SCHEMA_VERSION,
            "model": self.model,
            "base_model": self.base_model,
            "checks": rows,
            "lost": list(self.lost),
        }


def check_capabilities(
    engines: ModelCache,
    model: str,
    base_model: str,
    examples: Sequence[Example],
    others: Sequence[Example] = (),
    should_stop: ShouldStop | None = None,
) -> CapabilityReport:
    """Measures both models on the same few clips, on those clips joined, on silence, and on `others`.

    `others` are clips in languages that the model was not tuned in, each with its language.

    Raises:
        ModelError: if one of them cannot be loaded.
    """
    clips, foreign = _clips(examples), _clips(others)
    found: dict[str, dict[str, float]] = {}
    for name in (base_model, model):
        with engines.lease(name) as engine:
            found[name] = _measure(engine, clips, foreign, should_stop or (lambda: False))
    both = [check for check in CHECKS if check in found[base_model] and check in found[model]]
    counted = {"timestamps": len(clips), "language": sum(bool(example.language) for example, _ in clips)}
    rows = tuple(
        Capability(check, found[base_model][check], found[model][check], counted.get(check, 0))
        for check in both
    )
    return CapabilityReport(model, base_model, rows)


def _clips(examples: Sequence[Example]) -> list[tuple[Example, Samples]]:
    """A few that can be read, spread over all."""
    spread = list(examples[:: max(1, len(examples) // _CLIPS)])[:_CLIPS]
    read = []
    for example in spread:
        try:
            samples = read_audio(example.audio_path, example.start_seconds, example.end_seconds)
        except DataError:  # it was counted when the data were read
            continue
        read.append((example, samples))
    return read


def _measure(
    engine: "Transcriber",
    clips: Sequence[tuple[Example, Samples]],
    foreign: Sequence[tuple[Example, Samples]],
    should_stop: ShouldStop,
) -> dict[str, float]:
    checks: dict[str, Callable[[], float | None]] = {
        "timestamps": lambda: _timestamps(engine, clips),
        "long_form": lambda: _long_form(engine, clips),
        "silence": lambda: _silence(engine),
        "language": lambda: _language(engine, clips),
        "other_languages": lambda: _other_languages(engine, foreign),
    }
    found = {}
    for name, check in checks.items():
        if should_stop():
            break
        share = check()
        if share is not None:
            found[name] = share
    return found


def _options(**more: Any) -> TranscribeOptions:
    common = {"max_new_tokens": _MOST_TOKENS, "no_speech_threshold": 1.0, "temperature": (0.0,)}
    return TranscribeOptions(**{**common, **more})


def _timestamps(engine: "Transcriber", clips: Sequence[tuple[Example, Samples]]) -> float | None:
    """Share of clips whose speech is given times, in order and within the clip."""
    if not clips:
        return None
    good = 0
    for example, samples in clips:
        seconds = len(samples) / SAMPLING_RATE
        options = _options(timestamps="segment", language=example.language or "auto")
        # Half a second more than the clip: a model that gives no times ends where the sound does.
        padded = np.concatenate([samples, np.zeros(SAMPLING_RATE // 2, np.float32)])
        segments = engine.transcribe_samples([padded], len(padded) / SAMPLING_RATE, options).segments
        times = [edge for segment in segments for edge in (segment.start_seconds, segment.end_seconds)]
        good += bool(times) and times == sorted(times) and times[-1] < seconds + 0.45
    return good / len(clips)


def _long_form(engine: "Transcriber", clips: Sequence[tuple[Example, Samples]]) -> float | None:
    """Share of words that are right in a recording of more than a window; loops and gaps count as errors."""
    clips = [(example, samples) for example, samples in clips if example.text]
    if not clips:
        return None
    pause = np.zeros(int(_PAUSE_SECONDS * SAMPLING_RATE), np.float32)
    pieces: list[Samples] = []
    texts: list[str] = []
    while sum(map(len, pieces)) < _LONG_SECONDS * SAMPLING_RATE:
        example, samples = clips[len(texts) % len(clips)]
        pieces += [samples, pause]
        texts.append(example.text)
    recording = np.concatenate(pieces)
    options = _options(language=clips[0][0].language or "auto", max_new_tokens=0)
    written = engine.transcribe_samples([recording], len(recording) / SAMPLING_RATE, options).text
    return max(0.0, 1.0 - error_rates([" ".join(texts)], [written], "basic").wer)


def _silence(engine: "Transcriber") -> float:
    """Share of windows without speech that the model leaves empty, with no voice activity to warn it."""
    count = int(_SILENCE_SECONDS * SAMPLING_RATE)
    noise = np.random.default_rng(0).normal(0.0, 0.003, count).astype(np.float32)
    windows = [np.zeros(count, np.float32), noise]
    options = _options(timestamps="none", language="en", max_new_tokens=24)
    texts = [engine.transcribe_samples([window], _SILENCE_SECONDS, options).text for window in windows]
    return sum(not text.strip(" .…") for text in texts) / len(windows)


def _language(engine: "Transcriber", clips: Sequence[tuple[Example, Samples]]) -> float | None:
    """Share of clips that name their language and are heard in it."""
    named = [(example, samples) for example, samples in clips if example.language]
    if not named or not engine.languages:
        return None
    heard = [engine.detect_language(samples) for _example, samples in named]
    right = [
        next(iter(odds), "") == example.language for (example, _), odds in zip(named, heard, strict=True)
    ]
    return sum(right) / len(right)


def _other_languages(engine: "Transcriber", foreign: Sequence[tuple[Example, Samples]]) -> float | None:
    """Share of characters that are right, told each clip's language; of languages that the model has."""
    heard, said = [], []
    for example, samples in foreign:
        code = resolve_language(str(example.language))
        if code not in engine.languages or not example.text:
            continue
        options = _options(language=code, timestamps="none")
        heard.append(engine.transcribe_samples([samples], len(samples) / SAMPLING_RATE, options).text)
        said.append(example.text)
    return max(0.0, 1.0 - error_rates(said, heard, "basic").cer) if said else None
