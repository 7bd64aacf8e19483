"""What a model writes where nobody speaks, as a figure: words an hour, and how many texts are loops.

Three minutes, always the same: digital silence, white and pink noise, chords, and so many voices at once that
none is understood. The model is not warned: nobody looks for voices, and no text is dropped as silence. After
Koenecke et al. (2024), Careless Whisper: what it makes up, it makes up where little is said.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.evaluation.explorer import repeats_itself
from studio.evaluation.metrics import mixed_tokens
from studio.evaluation.result import NonSpeech
from studio.files import read_json_lines
from studio.settings import DEMO_SPEECH
from studio.transcription.engine import TranscribeOptions
from studio.transcription.languages import AUTO, resolve_language
from studio.watching import ShouldStop, never

if TYPE_CHECKING:
    from studio.transcription.transcriber import Transcriber

Samples = NDArray[np.float32]
Read = Callable[[Samples, str, Callable[[], str], ShouldStop], str]
"""What is known of a recording, else what is written of it (see `KeptReadings.read`)."""

SECONDS = 30.0
"""Of each recording: what Whisper hears at a time."""
_COUNT = int(SECONDS * SAMPLING_RATE)
_SEED = 0
_VOICES = 12
_CHORD_SECONDS = 2.0
_CHORDS = ((57, 60, 64), (53, 57, 60), (48, 52, 55), (55, 59, 62))
"""Notes as MIDI counts them: a minor, F, C, G."""
_HARMONICS = 4
_MOST_TOKENS = 96
"""Enough to see a loop."""


def hear_non_speech(
    engine: "Transcriber", language: str, should_stop: ShouldStop = never, read: Read | None = None
) -> list[str]:
    """The text of each recording, loops as long as they are; nothing if `should_stop` says so.

    `language` is what the model is told that it hears; English where it does not know it. `read` knows texts
    of before.
    """
    code = resolve_language(language)
    code = code if code != AUTO and code in engine.languages else "en"
    options = TranscribeOptions(max_new_tokens=_MOST_TOKENS, num_beams=1)
    sounds = recordings()

    @cache
    def heard() -> list[str]:
        """The texts of all recordings, which are heard at once."""
        windows = engine.hear_batch(sounds, options, [code] * len(sounds), cuts_loops=False)
        return [window.text for window in windows]

    if should_stop():
        return []
    texts = []
    for place, samples in enumerate(sounds):

        def write(place: int = place) -> str:
            """The text of one of them."""
            return heard()[place]

        # All are heard at once: none is cut short.
        texts.append(read(samples, code, write, lambda: False) if read else write())
    return texts


def figure_of(texts: Sequence[str]) -> NonSpeech:
    """The figure of what was written of `recordings`; of Chinese and Japanese each character is a word."""
    words = [words_of(text) for text in texts]
    seconds = SECONDS * len(texts)
    loops = sum(repeats_itself(written, ()) for written in words)
    return NonSpeech(3600 * sum(map(len, words)) / seconds, loops / len(texts), seconds)


def words_of(text: str) -> list[str]:
    """Words, not signs: a full stop is no word."""
    return [word for word in mixed_tokens(text) if any(map(str.isalnum, word))]


@cache
def recordings() -> tuple[Samples, ...]:
    """Half a minute of each kind, mono at 16 kHz."""
    chance = np.random.default_rng(_SEED)
    white = chance.standard_normal(_COUNT)
    silence = np.zeros(_COUNT)
    sounds = (
        silence,
        _as_loud(white, 0.003),
        _as_loud(white, 0.03),
        _pink(chance),
        _chords(),
        _babble(chance),
    )
    return tuple(sound.astype(np.float32) for sound in sounds)


def _as_loud(sound: NDArray[np.float64], level: float) -> NDArray[np.float64]:
    """The sound with that root mean square."""
    return sound * (level / float(np.sqrt(np.mean(np.square(sound)))))


def _pink(chance: np.random.Generator) -> NDArray[np.float64]:
    """Noise with as much power in each octave."""
    spectrum = np.fft.rfft(chance.standard_normal(_COUNT))
    spectrum[1:] /= np.sqrt(np.arange(1, len(spectrum)))
    spectrum[0] = 0.0
    return _as_loud(np.fft.irfft(spectrum, _COUNT), 0.03)


def _chords() -> NDArray[np.float64]:
    """Chords that are struck and die away, one after the other."""
    times = np.arange(int(_CHORD_SECONDS * SAMPLING_RATE)) / SAMPLING_RATE
    struck = []
    for notes in _CHORDS:
        pitches = [440.0 * 2 ** ((note - 69) / 12) for note in notes]
        tones = [
            np.sin(2 * np.pi * harmonic * pitch * times) / harmonic**2
            for pitch in pitches
            for harmonic in range(1, _HARMONICS + 1)
        ]
        struck.append(np.sum(tones, axis=0) * np.exp(-1.5 * times) * np.minimum(1.0, 100 * times))
    return _as_loud(np.resize(np.concatenate(struck), _COUNT), 0.08)


def _babble(chance: np.random.Generator) -> NDArray[np.float64]:
    """The demo speech's voices, a dozen at once, each from another place on."""
    rows, _ = read_json_lines(DEMO_SPEECH / "validation.jsonl")
    clips = [read_audio(DEMO_SPEECH / row["audio"]["path"]) for row in rows]
    together = np.zeros(_COUNT)
    for _ in range(_VOICES):
        said = np.concatenate([clips[place] for place in chance.permutation(len(clips))])
        together += np.resize(np.roll(said, int(chance.integers(len(said)))), _COUNT)
    return _as_loud(together, 0.05)
