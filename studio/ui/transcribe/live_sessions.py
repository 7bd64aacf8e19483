"""Those who speak to the page right now: one transcript each, fed by their browser."""

import base64
import binascii
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE
from studio.errors import AudioError, ConfigError, StudioError
from studio.messages import Message
from studio.transcription.chinese_script import AS_HEARD
from studio.transcription.engine import EngineChoice, TranscribeOptions, Transcript, Word
from studio.transcription.growing import GrowingRecording
from studio.transcription.languages import join_texts
from studio.transcription.live import LiveText, LiveTranscript
from studio.transcription.model_cache import ModelCache
from studio.transcription.transcriber import Transcriber
from studio.transcription.window_model import WORD_SECONDS
from studio.ui.shared.tasks import ExportStep
from studio.ui.transcribe.spoken_sound import SpokenSound
from studio.watching import OnStep, untold

MOST_AT_ONCE = 4
"""A model hears each of them several times a second."""
IDLE_SECONDS = 30.0
"""A browser that sent nothing for so long is gone."""
LONGEST_WAIT_SECONDS = 10.0
"""Words wait while a window is heard as a file's is: for longer than this only twice in a row. One window may
be hard to make out, and be heard at every temperature."""
_SURE_SECONDS, _SURE_LANGUAGE = 5.0, 0.95
"""whisper-tiny takes accented English of so many seconds for another language with 0.92 at most."""
_LONGEST_BLOCK_SECONDS = 60
_RATES = (8_000, 192_000)


@dataclass
class Beginning:
    """Somebody who wants to speak, while a model is got ready for them."""

    step: ExportStep | None = None
    """How far an export is, if one has to be made."""
    error: BaseException | None = None
    """Why the model cannot be used."""
    seen: float = field(default_factory=time.monotonic)


@dataclass
class _Session:
    live: LiveTranscript
    whole: GrowingRecording | None
    """The same as a file would be heard; None if that cannot be, or takes too long."""
    longest_wait_seconds: float
    languages: set[str]
    """Those that were clearly heard, if that was to be found out: a file is of one."""
    model: str
    seen: float
    sound: SpokenSound
    is_slow: bool = False
    """Whether the last window took so long."""
    transcript: Transcript | None = None
    """All that was said, once nothing more comes."""
    resampler: Any = None
    rate: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def feed(self, samples: NDArray[np.float32]) -> LiveText:
        """Takes the next mono samples at 16 kHz."""
        self.sound.add(samples)
        text = self.live.feed(samples)
        if self.whole is not None:
            self.whole.add(samples)
            if self.whole.is_due(is_busy=bool(text.tentative)):
                self._hear_window(self.whole)
        return text

    def _hear_window(self, whole: GrowingRecording) -> None:
        began = time.monotonic()
        try:
            whole.hear()
        except StudioError:
            self.whole = None
        was_slow, self.is_slow = self.is_slow, time.monotonic() - began > self.longest_wait_seconds
        if was_slow and self.is_slow:
            self.whole = None

    def finish(self, samples: NDArray[np.float32]) -> LiveText:
        """Takes the last samples and hears what is left of it all."""
        self.sound.add(samples)
        try:
            if self.whole is not None:
                self.whole.add(samples)
                heard = self.whole.finish()
                if self.languages <= {heard.language}:
                    self.transcript = replace(heard, model=self.model, engine="live")
        except StudioError:
            pass
        if self.transcript is None:
            self.live.feed(samples)
            self.live.finish()
            self.transcript = self.as_live()
        return LiveText(self.transcript.text, "", self.transcript.duration_seconds)

    def as_live(self) -> Transcript:
        """What is settled, as it was heard live."""
        live = self.live
        return Transcript(
            text=join_texts([segment.text for segment in live.segments], live.language),
            segments=live.segments,
            language=live.language,
            duration_seconds=live.text.heard_seconds,
            model=self.model,
            engine="live",
        )


@dataclass(frozen=True)
class Spoken:
    """What somebody said, as far as their page has it."""

    transcript: Transcript
    sound: Path | None
    """All of it, as a file that whoever holds this deletes; None if it could not be kept."""

    def forget(self) -> None:
        """Deletes the sound."""
        if self.sound is not None:
            self.sound.unlink(missing_ok=True)


class LiveSessions:
    """All that speak at once, by the id that their page made up. Safe to share by threads."""

    def __init__(
        self,
        engines: ModelCache,
        folder: Callable[[], Path],
        longest_wait_seconds: float = LONGEST_WAIT_SECONDS,
    ) -> None:
        """`folder` tells where the sound is kept."""
        self._engines = engines
        self._folder = folder
        self._longest_wait_seconds = longest_wait_seconds
        self._sessions: dict[str, _Session] = {}
        self._beginnings: dict[str, Beginning] = {}
        self._lock = threading.Lock()
        self._is_watched = False

    def begin(
        self,
        session_id: str,
        model: str,
        options: TranscribeOptions,
        choice: EngineChoice | None = None,
    ) -> None:
        """Loads the model and makes room for somebody who speaks; `beginning` tells how far it is.

        Raises:
            ConfigError: if as many speak already as can, or the model lacks the language or the task.
            ModelError, HubUnreachableError: if the model cannot be loaded.
            StorageError: if there is no room for an export.
        """
        beginning = Beginning()
        with self._lock:
            self._beginnings[session_id] = beginning

        def told(doing: Message, share: float) -> None:
            """How far the export is."""
            beginning.step, beginning.seen = ExportStep(doing, share), time.monotonic()

        try:
            with self._lock:
                self._require_room()
            as_file = replace(options, timestamps="word")
            soon = replace(as_file, num_beams=1, chinese_script=AS_HEARD)

            def lend(on_step: OnStep = untold) -> AbstractContextManager[Transcriber]:
                """The model for a moment."""
                return self._engines.lease(model, choice, on_step)

            languages: set[str] = set()
            hear = _hearing(lend, soon, languages)
            script = options.chinese_script if options.task == "transcribe" else AS_HEARD
            # So that the first words do not wait for the model.
            hear(np.zeros(SAMPLING_RATE, np.float32), told)
            with self._lock:
                self._require_room()
                sound = SpokenSound(self._folder(), self._engines.longest_seconds)
                live = LiveTranscript(hear, script)
                whole = GrowingRecording(lend, as_file)
                self._sessions[session_id] = _Session(
                    live, whole, self._longest_wait_seconds, languages, model, time.monotonic(), sound
                )
                del self._beginnings[session_id]
                self._watch()
        except BaseException as error:
            beginning.error, beginning.seen = error, time.monotonic()
            raise

    def beginning(self, session_id: str) -> Beginning | None:
        """How far a session is that nobody may speak in yet; None if none of this id is about to begin."""
        with self._lock:
            return self._beginnings.get(session_id)

    def knows(self, session_id: str) -> bool:
        """Whether somebody may speak under this id."""
        with self._lock:
            return session_id in self._sessions

    def feed(self, session_id: str, rate: int, sound: str, *, is_last: bool) -> LiveText:
        """Takes base64 of 16-bit mono samples at `rate` Hz, and gives the text as it is now.

        Raises:
            AudioError: if nobody speaks under this id, or the sound is no such samples.
        """
        session = self._session(session_id)
        with session.lock:
            try:
                samples = _resampled(session, _samples(sound, rate), rate, is_last=is_last)
                return session.finish(samples) if is_last else session.feed(samples)
            finally:
                session.seen = time.monotonic()

    def end(self, session_id: str, *, finishes: bool = False) -> Spoken | None:
        """Forgets somebody, and gives what they said; None if nobody spoke under this id. `finishes`: no last
        sound was sent, and what was heard is settled now.
        """
        with self._lock:
            session = self._sessions.pop(session_id, None)
        if session is None:
            return None
        with session.lock:
            if finishes and session.transcript is None:
                session.finish(np.zeros(0, np.float32))
            return Spoken(session.transcript or session.as_live(), session.sound.end())

    def _watch(self) -> None:
        """As long as anybody speaks, looks now and then for those whose browser is gone."""
        if self._sessions and not self._is_watched:
            self._is_watched = True
            timer = threading.Timer(IDLE_SECONDS, self._look)
            timer.daemon = True
            timer.start()

    def _look(self) -> None:
        with self._lock:
            self._is_watched = False
            try:
                self._forget_idle()
            finally:
                self._watch()

    def _forget_idle(self) -> None:
        """Sessions whose browser is gone, and beginnings that failed a while ago; a slow model is no sign."""
        earliest = time.monotonic() - IDLE_SECONDS
        idle = [key for key, one in self._sessions.items() if one.seen <= earliest and not one.lock.locked()]
        for gone in idle:
            self._sessions.pop(gone).sound.forget()
        self._beginnings = {
            key: one for key, one in self._beginnings.items() if one.error is None or one.seen > earliest
        }

    def _require_room(self) -> None:
        self._forget_idle()
        if len(self._sessions) >= MOST_AT_ONCE:
            raise ConfigError(
                "{count} people use live transcription already: try again when one of them has stopped.",
                count=MOST_AT_ONCE,
            )

    def _session(self, session_id: str) -> _Session:
        with self._lock:
            session = self._sessions.get(session_id)
        if session is None:
            raise AudioError("This live transcription has ended: press Start again.")
        return session


def _hearing(
    lend: Callable[..., AbstractContextManager[Transcriber]], options: TranscribeOptions, languages: set[str]
) -> Any:
    def hear(samples: NDArray[np.float32], on_step: OnStep = untold) -> tuple[Sequence[Word], str]:
        """The words of the sound since the last pause, and their language."""
        seconds = len(samples) / SAMPLING_RATE
        # A beginning is no single word: one that is unsure waits until more was said.
        how = options if seconds >= WORD_SECONDS else replace(options, vad=False)
        with lend(on_step) as engine:
            heard = engine.transcribe_samples([samples], seconds, how)
        if seconds >= _SURE_SECONDS and heard.language_probabilities.get(heard.language, 0) >= _SURE_LANGUAGE:
            languages.add(heard.language)
        return [word for segment in heard.segments for word in segment.words], heard.language

    return hear


def _samples(sound: str, rate: int) -> NDArray[np.float32]:
    try:
        data = base64.b64decode(sound, validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        raise AudioError("Some audio of the microphone was lost: press Start again.") from error
    is_rate = _RATES[0] <= rate <= _RATES[1]
    if len(data) % 2 or not is_rate or len(data) > 2 * rate * _LONGEST_BLOCK_SECONDS:
        raise AudioError("Some audio of the microphone was lost: press Start again.")
    return np.frombuffer(data, "<i2").astype(np.float32) / np.float32(32768)


def _resampled(
    session: _Session, samples: NDArray[np.float32], rate: int, *, is_last: bool
) -> NDArray[np.float32]:
    import soxr

    if rate == SAMPLING_RATE:
        return samples
    if session.resampler is None or session.rate != rate:
        session.resampler = soxr.ResampleStream(rate, SAMPLING_RATE, 1, dtype="float32", quality="MQ")
        session.rate = rate
    return np.asarray(session.resampler.resample_chunk(samples, last=is_last), np.float32)
