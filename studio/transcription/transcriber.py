"""Sound of any length to text with times, whatever library computes the model.

How Whisper is decoded here, from the top:

1. A recording is read in pieces, and each is cut into stretches where nobody speaks (`windows`, `stretches`,
   `voice_activity`). Unless told otherwise, a stretch is as long as somebody speaks, and its windows of 30 s
   are heard in turn, each told of the text before it. For windows that are decoded together, it is cut in
   pauses; what fits into one window is one. What is very quiet is made louder.
2. Windows, of one recording or of several, are encoded together, and the language is detected (`hearing`).
   Where a long recording has more than one, each part is heard in its own (`spoken_languages`).
3. Each is written down, again if it is unsure or a loop (`decoding`, `loops`). Long windows are written with
   time tokens: without them a model leaves out more sentences. Where they say that the text ends before the
   window does, the rest of the stretch is one more window (`time_tokens`).
4. The text is aligned with the sound: tokens to words, words to segments (`word_times`), none of them too
   short to be seen (`lasting`). If it has a long hole, another number of beams may find a text without; a
   voice for which there is still no word is heard once more, alone (`left_out`).
5. Chinese is kept in one script (`chinese_script`).

Only steps 2 to 4 ask the model (`window_model`), and hold it for one batch of windows at a time.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from studio.chinese import LANGUAGES as CHINESE
from studio.dataset.audio import SAMPLING_RATE, audio_duration, stream_audio, too_long
from studio.errors import RunError
from studio.messages import Joined, Message
from studio.transcription.chinese_script import OneScript
from studio.transcription.decoding import write
from studio.transcription.devices import is_out_of_memory
from studio.transcription.engine import OnProgress, Progress, Segment, TranscribeOptions, Transcript
from studio.transcription.hearing import hear, hint_tokens, initial_tokens, prompt_room
from studio.transcription.languages import AUTO, join_texts, resolve_language
from studio.transcription.lasting import lasting
from studio.transcription.options import check_prompt, check_suppressed
from studio.transcription.spoken_languages import spoken_languages
from studio.transcription.stretches import PLAIN_SECONDS, Recording, Stretch, next_batch
from studio.transcription.voice_activity import has_voice, loud_enough
from studio.transcription.window_model import WORD_SECONDS, Search, WindowModel
from studio.transcription.windows import (
    EDGE_SECONDS,
    SILENCE_SECONDS,
    WINDOW_SAMPLES,
    WINDOW_SECONDS,
    WindowLengths,
    cut_windows,
    pieces,
    without_silence,
)
from studio.watching import ShouldStop, never, untold
from studio.whisper.audio_context import FULL, SHORT

WINDOWS_TOGETHER = 8
"""Windows that are decoded together, unless told."""
LANGUAGES_TOLD = 5
"""Of the languages that a model weighed, so many are told."""
_QUICK_SECONDS, _SLOW_SECONDS = 4.0, 12.0
"""Unless told, batches grow while they take less than this, and shrink above: so long nobody can stop."""
_SHORTEST_SAMPLES = SAMPLING_RATE // 20
"""Less than this at the end of a recording holds no word."""


class Loaded(Protocol):
    """A model in memory, which is lent for one batch of windows at a time."""

    @property
    def model(self) -> WindowModel:
        """For what needs no weights, such as the tokens of a text."""
        ...

    @property
    def engine(self) -> str:
        """The library that plays it."""
        ...

    @property
    def notes(self) -> tuple[Message, ...]:
        """What goes with whatever it hears."""
        ...

    def using(self, adapter_id: str | None) -> AbstractContextManager[WindowModel]:
        """The model with one of its adapters, or none, for whoever holds it."""
        ...


_Spoken = tuple[NDArray[np.float32], str]
"""A clip, and the code of its language or `auto`."""


@dataclass(frozen=True)
class ClipText:
    """What a model wrote of a clip."""

    text: str
    average_logprob: float | None
    """Mean natural logarithm of the probability of each token, the end token included."""


class Transcriber:
    """A model that transcribes, as long as its lease lasts. See `studio.transcription.model_cache`."""

    def __init__(
        self,
        loaded: Loaded,
        model_id: str,
        adapter_id: str | None = None,
        audio_context: str = FULL,
        windows: WindowLengths | None = None,
        short_seconds: float | None = None,
        *,
        knows_text_before: bool = True,
        longest_seconds: float = math.inf,
    ) -> None:
        """`model_id` is what transcripts name; `adapter_id` must have been added to `loaded`.

        `audio_context`: what the encoder was trained to see, `full` windows or the sound's length (`short`).
        `windows`: how a recording is cut for a model that sees the sound's length. `short_seconds`: what is
        longer is read in full windows all the same; None: nothing is. `knows_text_before`: whether it has
        learned to go on from a text; the demo model, which has not, repeats it (of its sample of 82 s it gets
        66 % of the words wrong, 12 % without). `longest_seconds`: what is longer is refused, whatever its
        header says.
        """
        self._lent: Loaded | None = loaded
        self._adapter_id = adapter_id
        self._audio_context = audio_context
        self._windows = windows or WindowLengths()
        self._short_seconds = short_seconds
        self.model_id = model_id
        self._knows_text_before = knows_text_before
        self._longest_seconds = longest_seconds

    @property
    def _loaded(self) -> Loaded:
        assert self._lent is not None, "the lease of this model has ended"
        return self._lent

    def release(self) -> None:
        """Lets go of the model, so that whoever still holds the transcriber does not keep it in memory."""
        self._lent = None

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes that the model knows; none for an English-only model."""
        return tuple(self._loaded.model.tokens.languages)

    # ------------------------------------------------------------------ recordings

    def transcribe(
        self,
        audio_path: Path,
        options: TranscribeOptions,
        on_progress: OnProgress = untold,
        should_stop: ShouldStop = never,
    ) -> Transcript:
        """Transcribes a recording of any length, a piece at a time, never holding it whole in memory.

        If `should_stop` says so, the transcript ends with the windows at hand. A note says what is missing of
        a file that is cut off or damaged.

        Raises:
            AudioError: if the file cannot be read, or is longer than what is taken here.
            ConfigError: if the model lacks the language or the task, or an option has no such value.
        """
        told_seconds = audio_duration(audio_path)
        if told_seconds > self._longest_seconds:
            raise too_long(audio_path, self._longest_seconds)
        faults: list[Message] = []
        heard = self.transcribe_samples(
            stream_audio(audio_path, most_seconds=self._longest_seconds, on_fault=faults.append),
            told_seconds,
            options,
            on_progress,
            should_stop,
            audio_path=str(audio_path),
        )
        return replace(heard, notes=(*heard.notes, *faults))

    def transcribe_samples(
        self,
        blocks: Iterable[NDArray[np.float32]],
        total_seconds: float,
        options: TranscribeOptions,
        on_progress: OnProgress = untold,
        should_stop: ShouldStop = never,
        *,
        audio_path: str = "",
    ) -> Transcript:
        """The same for blocks of mono samples at 16 kHz; `total_seconds` is their length as far as known.

        Raises:
            ConfigError: if the model lacks the language or the task, or an option has no such value.
        """
        began = time.perf_counter()
        recording = self.begin(options)
        may_change = not recording.language
        length = 0.0
        is_stopped = False
        for samples in pieces(blocks):
            offset, length = length, length + len(samples) / SAMPLING_RATE
            if may_change and len(samples) > WINDOW_SAMPLES and len(self.languages) > 1:
                stretches = self._cut_by_language(recording, samples, offset, options, should_stop)
            else:
                stretches = self._cut(recording, samples, offset, options)
            for waiting in self._hear_all(stretches, options):
                on_progress(self._progress(recording, waiting, length, total_seconds, options))
                is_stopped = should_stop()
                if is_stopped:
                    break
            if is_stopped:
                length = max(length, total_seconds)
                break
            on_progress(self._progress(recording, (), length, total_seconds, options))
        took = time.perf_counter() - began
        return self.transcript(recording, length, options, took, audio_path)

    def begin(self, options: TranscribeOptions) -> Recording:
        """A recording of which nothing was heard yet.

        Raises:
            ConfigError: if the model lacks the language or the task, or an option has no such value.
        """
        return Recording(self._checked(options), script=OneScript(options.chinese_script))

    def hear_part(
        self,
        recording: Recording,
        samples: NDArray[np.float32],
        offset_seconds: float,
        options: TranscribeOptions,
        *,
        is_last: bool,
    ) -> int:
        """Hears the sound of a recording that begins `offset_seconds` into it, and is longer than a window or
        the last of it. Gives how many samples need not be heard again.

        If it is not the last, what is to come may belong to a window that is not full: that is left.
        """
        is_whole = is_last and not offset_seconds
        stretches = self._cut(recording, samples, offset_seconds, options, is_whole=is_whole)
        if recording.goes_on and stretches:
            begun = _from_the_beginning(stretches[0], samples, offset_seconds)
            stretches[:1] = [begun] if self._has_more(begun, options) else []
        last = None if is_last or not stretches else stretches[-1]
        if last:
            behind = offset_seconds + len(samples) / SAMPLING_RATE - last.start_seconds - last.seconds
            last.grows = behind < SILENCE_SECONDS
        recording.goes_on = bool(last and last.grows)
        ready = [stretch for stretch in stretches if not stretch.grows or self._has_more(stretch, options)]
        for _ in self._hear_all(ready, options):
            pass
        if last and recording.goes_on:
            return round((last.window_seconds - offset_seconds) * SAMPLING_RATE)
        return len(samples) if is_last else len(samples) - int(EDGE_SECONDS * SAMPLING_RATE)

    def transcribe_clips(
        self,
        clips: Sequence[NDArray[np.float32]],
        options: TranscribeOptions,
        audio_paths: Sequence[str] = (),
        on_progress: OnProgress = untold,
        should_stop: ShouldStop = never,
    ) -> Iterator[Transcript]:
        """Several recordings at once, windows of all of them together; mono samples at 16 kHz.

        Each is given in its turn as soon as it is finished, and progress is that of the first that is not. If
        `should_stop` says so, those that are finished are given all the same, and no others.

        Raises:
            ConfigError: if the model lacks the language or the task, or an option has no such value.
        """
        given_at = time.perf_counter()
        recordings = [self.begin(options) for _ in clips]
        lengths = [len(clip) / SAMPLING_RATE for clip in clips]
        names = [*audio_paths, *[""] * (len(clips) - len(audio_paths))]
        stretches = [
            stretch
            for recording, clip in zip(recordings, clips, strict=True)
            for stretch in self._cut(recording, clip, 0.0, options)
        ]

        def given(numbers: Sequence[int]) -> Iterator[Transcript]:
            """The transcripts of these recordings, which share the time since the last were given."""
            nonlocal given_at
            since, given_at = given_at, time.perf_counter()
            took = (given_at - since) / max(sum(lengths[n] for n in numbers), 1e-9)
            for n in numbers:
                yield self.transcript(recordings[n], lengths[n], options, took * lengths[n], names[n])

        left = list(range(len(clips)))
        for waiting in self._hear_all(stretches, options):
            unfinished = {id(stretch.recording) for stretch in waiting}
            finished = [n for n in left if id(recordings[n]) not in unfinished]
            in_turn = [n for n, due in zip(finished, left, strict=False) if n == due]
            if in_turn:
                yield from given(in_turn)
                left = left[len(in_turn) :]
            if should_stop():
                yield from given(finished[len(in_turn) :])
                return
            if left:
                first = recordings[left[0]]
                own = [stretch for stretch in waiting if stretch.recording is first]
                on_progress(self._progress(first, own, lengths[left[0]], 0.0, options))
        yield from given(left)

    def transcribe_batch(
        self, clips: Sequence[NDArray[np.float32]], options: TranscribeOptions, languages: Sequence[str]
    ) -> list[str]:
        """Plain texts of clips of at most 30 s, decoded together and without judging whether anybody speaks.

        `languages` has a name, code or `auto` for each clip. Where memory does not hold them all, one half
        is heard after the other.

        Raises:
            ConfigError: if the model lacks a language or the task.
        """
        return [heard.text for heard in self.hear_batch(clips, options, languages)]

    def hear_batch(
        self,
        clips: Sequence[NDArray[np.float32]],
        options: TranscribeOptions,
        languages: Sequence[str],
        *,
        cuts_loops: bool = True,
    ) -> list[ClipText]:
        """The same with how sure the model was; loops stay as long as they are unless it `cuts_loops`.

        Raises:
            ConfigError: if the model lacks a language or the task.
        """
        self._checked(options)
        codes = [resolve_language(language, self.languages) for language in languages]
        given = list(zip(clips, codes, strict=True))
        kinds = [self._is_short(options, len(clip) / SAMPLING_RATE) for clip in clips]
        found: dict[int, ClipText] = {}
        for is_short in set(kinds):
            places = [place for place, kind in enumerate(kinds) if kind is is_short]

            def write(spoken: Sequence[_Spoken], is_short: bool = is_short) -> list[ClipText]:
                """The texts of these clips, all of one audio context."""
                return self._written(spoken, options, is_short=is_short, cuts_loops=cuts_loops)

            found |= dict(zip(places, _halved([given[place] for place in places], write), strict=True))
        return [found[place] for place in range(len(clips))]

    def _written(
        self, clips: Sequence[_Spoken], options: TranscribeOptions, *, is_short: bool, cuts_loops: bool
    ) -> list[ClipText]:
        codes = [code for _, code in clips]
        with self._loaded.using(self._adapter_id) as model:
            encoded = model.encode([loud_enough(sound) for sound, _ in clips], is_short=is_short)
            if AUTO in codes:
                detected = [next(iter(row)) for row in model.detect_language(encoded)]
                codes = [seen if code == AUTO else code for code, seen in zip(codes, detected, strict=True)]
            prompts = [model.tokens.prompt(code, options.task, with_times=False) for code in codes]
            beams = options.num_beams or model.usual_beams
            # No text is so unsure that the silence is asked, too: only what it is worth is told.
            search = Search(beams, 0.0, options.max_new_tokens, options.suppress_tokens, -math.inf)
            found = write(model, encoded, prompts, search, cuts_loops=cuts_loops)
            return [ClipText(model.text_of(one.tokens).strip(), one.average_logprob) for one in found]

    def detect_language(self, samples: NDArray[np.float32]) -> dict[str, float]:
        """Code → probability, likeliest first, from the first 30 s; empty where nothing is heard.

        An English-only model answers `{"en": 1.0}`.
        """
        window = loud_enough(samples[: int(WINDOW_SECONDS * SAMPLING_RATE)])
        if not has_voice(window):
            return {}
        if not self.languages:
            return {"en": 1.0}
        with self._loaded.using(self._adapter_id) as model:
            is_short = self._is_short(TranscribeOptions(), len(samples) / SAMPLING_RATE)
            return model.detect_language(model.encode([window], is_short=is_short))[0]

    # ------------------------------------------------------------------ windows

    def _cut_by_language(
        self,
        recording: Recording,
        samples: NDArray[np.float32],
        offset_seconds: float,
        options: TranscribeOptions,
        should_stop: ShouldStop,
    ) -> list[Stretch]:
        """The stretches of a piece, each in the language that is spoken there."""
        spoken, odds = spoken_languages(samples, self._odds, recording.language, should_stop)
        if not spoken:
            return self._cut(recording, samples, offset_seconds, options)
        recording.language_probabilities = recording.language_probabilities or odds
        return [
            replace(stretch, own_language=part.language)
            for part in spoken
            for stretch in self._cut(
                recording,
                samples[part.start : part.end],
                offset_seconds + part.start / SAMPLING_RATE,
                options,
            )
        ]

    def _odds(self, sounds: Sequence[NDArray[np.float32]]) -> list[dict[str, float]]:
        """The probability of each language in each of some short sounds."""
        with self._loaded.using(self._adapter_id) as model:
            return model.detect_language(model.encode([loud_enough(one) for one in sounds], is_short=True))

    def _cut(
        self,
        recording: Recording,
        samples: NDArray[np.float32],
        offset_seconds: float,
        options: TranscribeOptions,
        *,
        is_whole: bool = True,
    ) -> list[Stretch]:
        """The stretches of a piece that begins `offset_seconds` into its recording.

        If it `is_whole`, it is a clip where it is no longer than a window.
        """
        is_short = self._is_short(options, offset_seconds + len(samples) / SAMPLING_RATE)
        said = [] if is_short or offset_seconds else self._clips_in_silence(samples, options)
        is_short = is_short or bool(said)
        lengths = self._windows if is_short else WindowLengths()
        is_judged = options.vad and options.no_speech_threshold < 1
        if said:
            spans = said
        elif is_whole and len(samples) <= lengths.longest_seconds * SAMPLING_RATE:
            is_heard = len(samples) >= (_SHORTEST_SAMPLES if offset_seconds else 1)
            spans = [(0, len(samples))] if is_heard and (not is_judged or has_voice(samples)) else []
        elif not options.vad and options.batch_size <= 1 and lengths == WindowLengths():
            spans = [(0, len(samples))]
        elif self._tells_text_before(options):
            spans = without_silence(samples)
        else:
            spans = cut_windows(samples, lengths, vad=options.vad)
        return [
            Stretch(
                recording,
                loud_enough(samples[start:end]),
                offset_seconds + start / SAMPLING_RATE,
                # A window that a model of short clips reads is a clip: the model writes all of it.
                with_times=lengths == WindowLengths()
                and _is_timed((end - start) / SAMPLING_RATE, is_asked=options.timestamps != "none"),
                is_short=is_short,
            )
            for start, end in spans
        ]

    def _clips_in_silence(
        self, samples: NDArray[np.float32], options: TranscribeOptions
    ) -> list[tuple[int, int]]:
        """What is said in a window that is only longer than clips for the silence around them; else nothing.

        Whoever presses a button before they speak is heard as in the clips that a model was tuned on.
        """
        if not options.vad or len(samples) > WINDOW_SAMPLES:
            return []
        said = without_silence(samples)
        is_clips = all(self._is_short(options, (end - start) / SAMPLING_RATE) for start, end in said)
        return said if is_clips else []

    def _hear_all(
        self, stretches: Iterable[Stretch], options: TranscribeOptions
    ) -> Iterator[Sequence[Stretch]]:
        """Hears stretches to their ends, some of them together; tells after each time what is left to hear.

        As many together as was asked for; else as many as take seconds, not minutes.
        """
        waiting = deque(stretches)
        size = options.batch_size or 1
        most = options.batch_size or WINDOWS_TOGETHER
        while waiting:
            batch = next_batch(waiting, size, in_turn=self._tells_text_before(options))
            began = time.perf_counter()
            try:
                left_out = self._hear(batch, options)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                size = most = _half(len(batch), error)
                for stretch in batch:
                    stretch.recording.notes = [_went_on(len(batch), size)]
                waiting.extendleft(reversed(batch))
                continue
            took = time.perf_counter() - began
            more = [stretch for stretch in batch if self._has_more(stretch, options)]
            waiting.extendleft(reversed([*left_out, *more]))
            yield waiting
            if not options.batch_size:
                if took < _QUICK_SECONDS:
                    size = min(2 * size, most)
                elif took > _SLOW_SECONDS:
                    size = max(1, size // 2)

    def _has_more(self, stretch: Stretch, options: TranscribeOptions) -> bool:
        """Whether something may be said in what is left of a stretch; silence is passed over."""
        rest = stretch.samples[int(stretch.position_seconds * SAMPLING_RATE) :]
        if len(rest) < (WINDOW_SAMPLES if stretch.grows else _SHORTEST_SAMPLES):
            return False
        if len(rest) > WINDOW_SAMPLES:
            return True  # a stretch has no long silence inside; to look for one again takes longer each time
        return not (options.vad and options.no_speech_threshold < 1) or has_voice(rest)

    def _hear(self, batch: Sequence[Stretch], options: TranscribeOptions) -> list[Stretch]:
        """Adds the next window of each stretch to its recording; gives what the model left out."""
        with self._loaded.using(self._adapter_id) as model:
            heard = [
                window
                for is_short in (False, True)
                if (alike := [stretch for stretch in batch if stretch.is_short is is_short])
                for window in hear(model, alike, options, is_short=is_short)
            ]
            room = prompt_room(model) if self._tells_text_before(options) else 0
        return [part for window in heard for part in window.take(options, room)]

    # ------------------------------------------------------------------ results

    def _progress(
        self,
        recording: Recording,
        waiting: Sequence[Stretch],
        length: float,
        total_seconds: float,
        options: TranscribeOptions,
    ) -> Progress:
        """Of a recording of which `length` seconds were read, and those stretches are left to be heard."""
        left = sum(stretch.seconds - stretch.position_seconds for stretch in waiting)
        begins = (stretch.start_seconds + stretch.position_seconds for stretch in waiting)
        total = max(total_seconds, length)
        segments = lasting(self._in_script(recording, options), total, options.written_in(recording.language))
        return Progress(length - left, total, segments, min(begins, default=length), recording.language)

    def _in_script(self, recording: Recording, options: TranscribeOptions) -> tuple[Segment, ...]:
        segments = recording.segments
        if options.task == "transcribe":
            chinese = iter(recording.script.of([one for one in segments if one.language in CHINESE]))
            segments = [next(chinese) if one.language in CHINESE else one for one in segments]
        if len(recording.languages()) < 2:
            segments = [replace(one, language="") for one in segments]
        if options.timestamps == "segment":
            segments = [replace(one, words=()) for one in segments]
        return tuple(segments)

    def transcript(
        self,
        recording: Recording,
        duration: float,
        options: TranscribeOptions,
        took: float = 0.0,
        audio_path: str = "",
    ) -> Transcript:
        """What was heard of a recording."""
        spoken = recording.languages()
        language = next(iter(spoken), recording.language)
        written = options.written_in(language)
        segments = lasting(self._in_script(recording, options), duration, written)
        text = join_texts([segment.text for segment in segments], written)
        if options.timestamps == "none":
            segments = (Segment(0.0, duration, text),) if text else ()
        return Transcript(
            text=text,
            segments=segments,
            language=language,
            duration_seconds=duration,
            model=self.model_id,
            engine=self._loaded.engine,
            processing_seconds=took,
            audio_path=audio_path,
            language_probabilities=dict(list(recording.language_probabilities.items())[:LANGUAGES_TOLD]),
            notes=(*self._loaded.notes, *recording.notes, *_more_than_one(spoken)),
            written_in=written,
        )

    def _tells_text_before(self, options: TranscribeOptions) -> bool:
        """Whether windows of a recording are heard in turn, each told of the text before it.

        A model that reads long recordings as short clips has never read such a thing.
        """
        is_whole = not self._is_short(options, math.inf) or self._windows == WindowLengths()
        return (
            is_whole
            and self._knows_text_before
            and options.condition_on_prev_tokens
            and options.batch_size <= 1
        )

    def _is_short(self, options: TranscribeOptions, seconds: float) -> bool:
        """Whether a sound of that length is read as long as it is, and not in full windows."""
        if options.audio_context != "auto":
            return options.audio_context == SHORT
        return self._audio_context == SHORT and seconds <= (self._short_seconds or math.inf)

    def _checked(self, options: TranscribeOptions) -> str:
        """The language's code, or nothing if it is to be detected; the model can do what else is asked."""
        model = self._loaded.model
        model.tokens.checked_task(options.task)
        language = resolve_language(options.language, self.languages)
        check_suppressed(options, model.vocabulary)
        length = len(initial_tokens(model, options)) + len(hint_tokens(model, options.hotwords))
        check_prompt(options, length, prompt_room(model), has_place=model.tokens.previous is not None)
        return "" if language == AUTO else language


def _more_than_one(languages: Sequence[str]) -> list[Message]:
    if len(languages) < 2:
        return []
    return [
        Message(
            "More than one language was heard: {languages}. If there is only one, choose it.",
            languages=Joined(tuple(languages)),
        )
    ]


def _from_the_beginning(stretch: Stretch, samples: NDArray[np.float32], offset_seconds: float) -> Stretch:
    """A stretch that began earlier, with the short silence before its next voice, as if it were whole."""
    silence_seconds = stretch.start_seconds - offset_seconds
    if silence_seconds >= SILENCE_SECONDS:
        return stretch
    after = round((silence_seconds + stretch.seconds) * SAMPLING_RATE)
    return replace(stretch, samples=loud_enough(samples[:after]), start_seconds=offset_seconds)


def _is_timed(seconds: float, *, is_asked: bool) -> bool:
    """Whether a stretch is written with time tokens.

    With them whisper-tiny goes on behind a single word: 239 % of errors for 200 of them, without 109 %.
    """
    return seconds > PLAIN_SECONDS or (is_asked and seconds >= WORD_SECONDS)


def _halved(clips: Sequence[_Spoken], write: Callable[[Sequence[_Spoken]], list[ClipText]]) -> list[ClipText]:
    """The texts of clips together or, where memory does not hold them, of one half after the other."""
    try:
        return write(clips)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        half = _half(len(clips), error)
    return [text for part in (clips[:half], clips[half:]) for text in _halved(part, write)]


def _half(windows: int, error: Exception) -> int:
    """How many windows are heard together after so many were more than memory holds.

    Raises:
        RunError: if it was one.
    """
    if windows == 1:
        raise RunError(
            "Memory ran out over one window of 30 seconds: choose fewer beams, a smaller model, or weights "
            "in 8 or 4 bits."
        ) from error
    return windows // 2


def _went_on(batch: int, fewer: int) -> Message:
    return Message(
        "Memory ran out over {batch} windows together: {fewer} at a time went on.", batch=batch, fewer=fewer
    )
