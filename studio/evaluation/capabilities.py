"""What did fine-tuning break? A few measured checks of a model beside its base.

Long recordings of what was tuned and of something else, times, silence, and which language is heard: what
tuning on short clips of one language is known to take away. What the verdicts say comes from an interval
over sentences or clips: of few, only a large loss can be told from chance.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from studio.chinese import LANGUAGES as CHINESE
from studio.dataset.audio import SAMPLING_RATE
from studio.dataset.example import FEWEST_CLIPS, Example, read_clips, spread
from studio.evaluation.metrics import Errors, errors_of_parts, interval_of, metric_for
from studio.evaluation.non_speech import figure_of, hear_non_speech, words_of
from studio.evaluation.result import NonSpeech
from studio.files import read_json, write_json
from studio.transcription.engine import AudioContext, OnProgress, Progress, TranscribeOptions
from studio.transcription.languages import AUTO, resolve_language
from studio.transcription.model_cache import ModelCache
from studio.watching import ShouldStop, never, untold

if TYPE_CHECKING:
    from studio.transcription.transcriber import Transcriber

SCHEMA_VERSION = 2
CHECKS = ("long_form", "other_languages", "timestamps", "silence", "language")
"""What is most at risk first."""
_HUNDREDTHS = {"long_form": 45, "other_languages": 25, "timestamps": 12, "silence": 12, "language": 6}
"""Of the time that all take, about."""
TOLERANCE = 0.05
"""Where the interval says that no more was lost, nothing was."""
_LEAST_RIGHT = 0.05
"""Who gets fewer words right than this share can do nothing of it."""
_UNKNOWN_ERRORS = 0.5
"""A base that is wrong so often does not know what the model was taught."""
_FAR = 0.1
"""Errors by which one way of reading must be better than the other to be worth a change."""
_LEAST_LOSS = 0.02
"""What is smaller is no reason to train again, however sure it is."""
_COLLAPSE = -0.5
"""Of fewer than `FEWEST_CLIPS` the verdict is `unclear`, unless three or four have lost more than half."""
_CLIPS = 8
_MOST_CLIPS = 40
"""Of which a long recording is put together."""
_LONG_SECONDS = 60.0
_MOST_FIRST_SECONDS = 600.0
"""What is read for the first time may take so long in all, whatever else there is time for."""
_WAY_OF_READING = 2
"""Another number where the transcriber writes otherwise: what was read before would not compare."""
_PAUSE_SECONDS = 0.5
_TRANSCRIBE = "transcribe"
_MOST_TOKENS = 96
"""A window: enough for what is said in it, and an end to what is not."""

Samples = NDArray[np.float32]
Clip = tuple[Example, Samples]
_Part = tuple[int, int, int]
"""Of a sentence: the number of its clip, errors, length."""
Heard = Callable[[float], None]
"""Told which share of the recordings is heard."""


@dataclass(frozen=True)
class Capability:
    """One check; shares between 0 and 1, 1 is best."""

    check: str
    """One of `CHECKS`: words (characters, in scripts without spaces) that are right in a long recording of
    the clips, and in one of something else; clips with plausible times; windows without speech that stay
    empty; clips whose language is the one they have."""
    base: float
    tuned: float
    clips: int
    """How many sentences or clips were counted."""
    low: float
    """The interval (95 %) of `tuned` minus `base`."""
    high: float

    @property
    def verdict(self) -> str:
        """`better`, `kept`, `worse`, `neither` (the base cannot either), or `unclear`: too few to tell."""
        if self.clips < FEWEST_CLIPS and self.check != "silence":  # its windows are always the same
            return "worse" if self.clips > 2 and self.high < _COLLAPSE else "unclear"
        if max(self.base, self.tuned) < _LEAST_RIGHT:
            return "neither"  # about as many errors as words in both: by how many says nothing
        if self.high < 0 and self.low < -_LEAST_LOSS:
            return "worse"
        if self.low > 0:
            return "better"
        return "unclear" if self.low < -TOLERANCE else "kept"

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
    long_windows: AudioContext = "auto"
    """How long recordings were read: `auto` as the model's card says, `short` where that is far better."""
    non_speech: tuple[NonSpeech, NonSpeech] | None = None
    """What the base and the model write where nobody speaks; None if that was not checked."""
    why_unchecked: Mapping[str, str] = field(default_factory=dict)
    """Of checks that were not made: `time`, there was none left, or `nothing`, to listen to."""

    @property
    def lost(self) -> tuple[str, ...]:
        """Checks that the tuned model is clearly worse in."""
        return tuple(row.check for row in self.checks if not row.is_kept)

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Checks for which there was nothing to listen to, or no time."""
        return tuple(check for check in CHECKS if check not in {row.check for row in self.checks})

    def to_json(self) -> dict[str, Any]:
        """For cards and `--json`."""
        rows = [{**asdict(row), "is_kept": row.is_kept, "verdict": row.verdict} for row in self.checks]
        return {
            "schema_version": SCHEMA_VERSION,
            "model": self.model,
            "base_model": self.base_model,
            "checks": rows,
            "lost": list(self.lost),
            "unchecked": list(self.unchecked),
            "why_unchecked": dict(self.why_unchecked),
            "non_speech": dict(zip(("base", "tuned"), map(asdict, self.non_speech), strict=True))
            if self.non_speech
            else None,
        }


class KeptReadings:
    """What a base wrote of recordings, in a file: the next run that has the same base does not ask again."""

    def __init__(self, path: Path | None, model: str) -> None:
        """`model` is the base's revision; without a `path` nothing is kept."""
        self._path = path
        self._model = model
        self._spent_seconds = 0.0
        self._began: float | None = None
        try:
            self._found: dict[str, str] = read_json(path) if path else {}
        except (OSError, ValueError):
            self._found = {}

    @property
    def first_seconds(self) -> float:
        """Spent so far on what will be kept, within reason: it is read once, and is no cost of each run."""
        if self._path is None:
            return 0.0
        now = time.monotonic() - self._began if self._began is not None else 0.0
        return min(_MOST_FIRST_SECONDS, self._spent_seconds + now)

    def read(self, samples: Samples, way: str, write: Callable[[], str], should_stop: ShouldStop) -> str:
        """What is known of the recording read in that way (a language, and a task other than `transcribe`),
        else what `write` makes of it; what was cut short is not kept.
        """
        digest = hashlib.blake2b(samples.tobytes(), digest_size=16).hexdigest()
        key = f"{_WAY_OF_READING} {self._model} {way} {digest}"
        if key not in self._found:
            self._began = time.monotonic()
            try:
                written = write()
            finally:
                self._spent_seconds += time.monotonic() - self._began
                self._began = None
            if should_stop():
                return written
            self._found[key] = written
            if self._path:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                write_json(self._path, self._found)
        return self._found[key]


def check_capabilities(
    engines: ModelCache,
    model: str,
    base_model: str,
    examples: Sequence[Example],
    others: Sequence[Example] = (),
    should_stop: ShouldStop = never,
    is_late: ShouldStop = never,
    kept: KeptReadings | None = None,
    clip_errors: float | None = None,
    on_progress: Callable[[int, int], None] = untold,
) -> CapabilityReport:
    """Measures both models on the same few clips, on those clips and on `others` joined, and on non-speech.

    `others` are clips in languages that the model was not tuned in, each with its language; a check for which
    there is nothing, or no time any more (`is_late`), is left out; of a long recording that was read in part,
    that part counts. `kept` has long recordings and non-speech that the base has read. `on_progress` is told
    what is done in hundredths, and a hundred.

    `clip_errors`, the error rate of a model that learned clips in windows of their own length, asks how it
    should read long ones. Whole windows are the base's, and keep what it knows; where it knows nothing, and
    the model has far more errors in them than in clips, windows of the clips' length are tried. That is part
    of the model and must be the same on a slow machine: it takes the time that it takes.

    Raises:
        ModelError: if one of them cannot be loaded.
    """
    clips = _clips(examples, _CLIPS)
    readings = kept or KeptReadings(None, "")
    own, foreign = _recordings(_clips(examples, _MOST_CLIPS)), _recordings(_clips(others, _MOST_CLIPS))
    windows: AudioContext = "auto"

    def stops() -> bool:
        """Whether to stop: what decides how the model reads takes the time that it takes."""
        return should_stop() or (is_late() and not decides)

    decides = False
    spoken = next((clip.language for clip in examples if clip.language), AUTO)
    non_speech: list[NonSpeech] = []

    def tell(check: str, models: int, share: float) -> None:
        """All checks before this one are done, and this one for so many models and `share` of the next."""
        before = sum(_HUNDREDTHS[name] for name in CHECKS[: CHECKS.index(check)])
        on_progress(int(before + (models + share) / 2 * _HUNDREDTHS[check]), 100)

    def silence(engine: "Transcriber", known: KeptReadings | None, _: Heard) -> list[_Part]:
        """Recordings in which nobody speaks, and whether words were written of each."""
        texts = hear_non_speech(engine, spoken, stops, known.read if known else None)
        if texts:
            non_speech.append(figure_of(texts))
        return [(number, int(bool(words_of(text))), 1) for number, text in enumerate(texts)]

    measures: dict[str, Callable[[Transcriber, KeptReadings | None, Heard], list[_Part]]] = {
        "long_form": lambda engine, known, heard: _long_form(engine, own[:1], known, stops, heard),
        "other_languages": lambda engine, known, heard: _long_form(
            engine, foreign, known, stops, heard, "auto" if known else windows
        ),
        "timestamps": lambda engine, _, __: _timestamps(engine, clips),
        "silence": silence,
        "language": lambda engine, _, __: _language(engine, clips),
    }
    rows: list[Capability] = []
    why: dict[str, str] = {}
    for check in CHECKS:
        decides = check == "long_form" and clip_errors is not None
        found: list[list[_Part]] = []
        for name, known in ((base_model, readings), (model, None)):
            heard = partial(tell, check, len(found))
            heard(0.0)
            if not stops():
                with engines.lease(name) as engine:
                    found.append(measures[check](engine, known, heard))
        base, tuned = _in_common(found) if len(found) == 2 else ([], [])
        if should_stop() or not base:
            if not should_stop():
                is_late_for_it = is_late() and _has_sound(check, clips, own, foreign)
                without = "no_language" if check == "language" and clips else "nothing"
                why[check] = "time" if is_late_for_it else without
            continue
        if check == "long_form" and _is_new_to_the_base(base, tuned, clip_errors):
            with engines.lease(model) as engine:
                in_clips = _in_common([_long_form(engine, own[:1], None, stops, lambda _: None, "short")])[0]
            if in_clips and interval_of(tuned, in_clips)[2] < -_FAR:
                windows, tuned = "short", in_clips
        rows.append(_compared(check, base, tuned))
    both = (non_speech[0], non_speech[1]) if any(row.check == "silence" for row in rows) else None
    return CapabilityReport(model, base_model, tuple(rows), windows, both, why)


def _has_sound(check: str, clips: Sequence[Clip], own: Sequence["_Long"], foreign: Sequence["_Long"]) -> bool:
    """Whether there is something to listen to for a check."""
    if check == "language":
        return any(example.language for example, _ in clips)
    return bool({"long_form": own, "other_languages": foreign, "timestamps": clips}.get(check, True))


def _in_common(read: Sequence[Sequence[_Part]]) -> list[Errors]:
    """Errors of each clip in what all have read, who may have been cut short: said twice is counted once."""
    most = min(map(len, read))
    found: list[Errors] = []
    for parts in read:
        sums: dict[int, tuple[int, int]] = {}
        for clip, errors, length in parts[:most]:
            before = sums.get(clip, (0, 0))
            sums[clip] = before[0] + errors, before[1] + length
        found.append(list(sums.values()))
    return found


def _is_new_to_the_base(base: Errors, tuned: Errors, clip_errors: float | None) -> bool:
    """Whether a model has learned what its base cannot, and reads less of it in long recordings."""
    if clip_errors is None:
        return False
    return _rate(base) > _UNKNOWN_ERRORS and _rate(tuned) > clip_errors + _FAR


def _rate(found: Errors) -> float:
    return sum(errors for errors, _ in found) / max(1, sum(length for _, length in found))


def _compared(check: str, base: Errors, tuned: Errors) -> Capability:
    more, low, high = interval_of(base, tuned)
    wrong = _rate(base)
    before, after = (min(1.0, max(0.0, 1.0 - rate)) for rate in (wrong, wrong + more))
    # More errors than words count as no word right: the interval ends where the shares do.
    least, most = (min(1.0 - before, max(-before, -bound)) + 0.0 for bound in (high, low))
    return Capability(check, before, after, len(base), least, most)


def _clips(examples: Sequence[Example], most: int) -> list[Clip]:
    """A few that can be read, spread over all."""
    return list(read_clips(spread(examples, most)))


# ---------------------------------------------------------------------- long recordings


@dataclass(frozen=True)
class _Long:
    """Clips of a language and task with pauses between them, again from the first until it is long."""

    language: str
    task: str
    samples: Samples
    texts: tuple[str, ...]
    """Of the sentences in their order."""
    ends: tuple[float, ...]
    """Where each of them ends, in seconds."""
    clips: int
    """How many there are: what is said twice is counted once."""


def _recordings(clips: Sequence[Clip]) -> list[_Long]:
    """A recording of each language and task; clips without a text say nothing that could be compared."""
    clips = [clip for clip in clips if clip[0].text]

    def kind(clip: Clip) -> tuple[str, str]:
        """Language and task of the clip, as its list has them."""
        return clip[0].language or AUTO, clip[0].task or _TRANSCRIBE

    alike = groupby(sorted(clips, key=kind), key=kind)
    return [_joined(*names, list(group)) for names, group in alike]


def _joined(language: str, task: str, clips: Sequence[Clip]) -> _Long:
    pause = np.zeros(int(_PAUSE_SECONDS * SAMPLING_RATE), np.float32)
    pieces: list[Samples] = []
    texts: list[str] = []
    ends: list[float] = []
    while not ends or ends[-1] < _LONG_SECONDS:
        example, samples = clips[len(texts) % len(clips)]
        pieces += [samples, pause]
        texts.append(example.text)
        ends.append(sum(map(len, pieces)) / SAMPLING_RATE)
    samples = np.concatenate(pieces)
    return _Long(language, task, samples, tuple(texts), tuple(ends), min(len(clips), len(texts)))


def _long_form(
    engine: "Transcriber",
    recordings: Sequence[_Long],
    known: KeptReadings | None,
    should_stop: ShouldStop,
    heard: Heard,
    windows: AudioContext = "auto",
) -> list[_Part]:
    """Errors of each sentence that was read, as a user reads a recording; loops and gaps are errors, too."""
    found: list[_Part] = []
    for number, recording in enumerate(recordings):
        code = resolve_language(recording.language)
        if code not in ("auto", *(engine.languages or ("en",))):
            continue
        settled = 0.0

        def note(progress: Progress, number: int = number) -> None:
            """Remembers up to where the recording is read, and tells it."""
            nonlocal settled
            settled = progress.settled_seconds
            heard((number + progress.done_seconds / progress.total_seconds) / len(recordings))

        options = TranscribeOptions(code, recording.task, num_beams=1, audio_context=windows)

        def write(
            samples: Samples = recording.samples, asked: TranscribeOptions = options, note: OnProgress = note
        ) -> str:
            """Has the model read the recording."""
            seconds = len(samples) / SAMPLING_RATE
            return engine.transcribe_samples([samples], seconds, asked, note, should_stop).text

        way = code if recording.task == _TRANSCRIBE else f"{code} {recording.task}"
        text = known.read(recording.samples, way, write, should_stop) if known else write()
        is_cut = should_stop()
        whole = sum(end <= settled for end in recording.ends) if is_cut else len(recording.texts)
        metric = metric_for(options.written_in(code), recording.texts)
        # A script is a way to write what was heard. What was heard of the next sentence belongs to that one.
        normalizer = "chinese" if options.written_in(code) in CHINESE else "basic"
        parts = errors_of_parts(recording.texts[: whole + 1], text, metric, normalizer)[:whole]
        before = sum(earlier.clips for earlier in recordings[:number])
        found += [(before + place % recording.clips, *part) for place, part in enumerate(parts)]
        if is_cut:
            break
    return found


# ---------------------------------------------------------------------- clips


def _options(**more: Any) -> TranscribeOptions:
    common = {"max_new_tokens": _MOST_TOKENS, "no_speech_threshold": 1.0, "temperature": (0.0,)}
    return TranscribeOptions(**{**common, **more})


def _timestamps(engine: "Transcriber", clips: Sequence[Clip]) -> list[_Part]:
    """Clips whose speech is given no times, or such as are not in order or not within the clip."""
    found: list[_Part] = []
    for example, samples in clips:
        seconds = len(samples) / SAMPLING_RATE
        task = example.task or _TRANSCRIBE
        options = _options(timestamps="segment", language=example.language or AUTO, task=task)
        # Half a second more than the clip: a model that gives no times ends where the sound does.
        padded = np.concatenate([samples, np.zeros(SAMPLING_RATE // 2, np.float32)])
        segments = engine.transcribe_samples([padded], len(padded) / SAMPLING_RATE, options).segments
        times = [edge for segment in segments for edge in (segment.start_seconds, segment.end_seconds)]
        is_good = bool(times) and times == sorted(times) and times[-1] < seconds + 0.45
        found.append((len(found), int(not is_good), 1))
    return found


def _language(engine: "Transcriber", clips: Sequence[Clip]) -> list[_Part]:
    """Clips that name their language and are heard in another."""
    if not engine.languages:
        return []
    said = [(resolve_language(example.language or AUTO), samples) for example, samples in clips]
    named = [(code, samples) for code, samples in said if code != AUTO]
    return [
        (number, int(next(iter(engine.detect_language(samples)), "") != code), 1)
        for number, (code, samples) in enumerate(named)
    ]
