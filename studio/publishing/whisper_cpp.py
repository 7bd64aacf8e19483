"""A file of ggml as whisper.cpp plays it, to be compared with the model that it was made of.

It plays in a process of its own: what whisper.cpp does not like of a file ends the process.
"""

import atexit
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE
from studio.errors import ModelBrokenError
from studio.memory.measure import resident_peak_bytes
from studio.transcription.special_tokens import SpecialTokens
from studio.transcription.window_model import Search, Written

_SHORTEST_SECONDS = 1.1
"""whisper.cpp writes nothing of less than a second."""


class WhisperCpp:
    """A file that is played. Whoever calls holds it alone; `close` ends its process."""

    def __init__(self, path: Path) -> None:
        """Raises:
        ModelBrokenError: if whisper.cpp cannot play the file.
        """
        self._path = path
        self._process = ProcessPoolExecutor(1, get_context("spawn"))
        self.tokens: SpecialTokens = self._ask(_special_tokens)

    def close(self) -> None:
        """Frees its memory; it is of no use afterwards."""
        self._process.shutdown()

    def peak_bytes(self) -> int:
        """The most main memory that its process has held."""
        return int(self._ask(_peak_bytes))

    def encode(self, clips: Sequence[NDArray[np.float32]]) -> Sequence[NDArray[np.float32]]:
        """The clips: mono samples at 16 kHz, of at most 30 seconds each."""
        return clips

    def generate(
        self, encoded: Sequence[NDArray[np.float32]], prompts: Sequence[Sequence[int]], search: Search
    ) -> list[Written]:
        """A text for each clip, greedily and without times; of a search, `max_new_tokens` counts."""
        codes = {id_: code for code, id_ in self.tokens.languages.items()}
        languages = [next((codes[id_] for id_ in prompt if id_ in codes), "en") for prompt in prompts]
        rows = zip(encoded, languages, strict=True)
        return [Written(self._ask(_tokens, *row, search.max_new_tokens)) for row in rows]

    def _ask(self, question: Callable[..., Any], *values: Any) -> Any:
        try:
            return self._process.submit(question, str(self._path), *values).result()
        except BrokenProcessPool as error:
            raise _cannot_load(self._path) from error


def _cannot_load(path: Path) -> ModelBrokenError:
    return ModelBrokenError("whisper.cpp cannot load {file}: export the model again.", file=path.name)


# ---------------------------------------------------------------- in its process


@cache
def _loaded(path: str) -> Any:
    import _pywhispercpp as library

    library.whisper_log_set(lambda *_line: None)
    atexit.register(library.whisper_log_set, None)  # a callback freed after Python breaks the process
    settings = library.whisper_context_default_params()
    settings.use_gpu = False
    settings.flash_attn = False  # that rounds more than the weights are: 89 of 100 texts alike, not 96
    context = library.whisper_init_from_file_with_params(path, settings)
    if context is None:
        raise _cannot_load(Path(path))
    return context


def _peak_bytes(_path: str) -> int:
    return resident_peak_bytes()


def _special_tokens(path: str) -> SpecialTokens:
    context = _loaded(path)
    import _pywhispercpp as library

    tasks = {
        "transcribe": library.whisper_token_transcribe(context),
        "translate": library.whisper_token_translate(context),
    }
    is_multilingual = bool(library.whisper_is_multilingual(context))
    first = library.whisper_token_lang(context, 0)
    numbers = range(tasks["translate"] - first) if is_multilingual else range(0)
    return SpecialTokens(
        end=library.whisper_token_eot(context),
        start=library.whisper_token_sot(context),
        no_timestamps=library.whisper_token_not(context),
        languages={library.whisper_lang_str(number): first + number for number in numbers},
        tasks=tasks if is_multilingual else {},
    )


def _tokens(path: str, clip: NDArray[np.float32], language: str, max_new_tokens: int) -> list[int]:
    """Text tokens of a clip: the likeliest each time, and no fall-back to another temperature."""
    context = _loaded(path)
    import _pywhispercpp as library

    params = library.whisper_full_default_params(library.whisper_sampling_strategy.WHISPER_SAMPLING_GREEDY)
    params.language = language
    params.no_timestamps = params.single_segment = params.no_context = params.suppress_nst = True
    params.print_progress = params.print_timestamps = False
    params.temperature_inc = 0.0
    params.max_tokens = max_new_tokens
    params.n_threads = max(1, (os.cpu_count() or 1) // 2)  # its threads wait for one another by spinning
    padded = np.pad(clip, (0, max(0, int(_SHORTEST_SECONDS * SAMPLING_RATE) - len(clip))))
    library.whisper_full(context, params, padded, len(padded))
    segments = range(library.whisper_full_n_segments(context))
    places = [(row, at) for row in segments for at in range(library.whisper_full_n_tokens(context, row))]
    ids = [library.whisper_full_get_token_id(context, *place) for place in places]
    end = library.whisper_token_eot(context)
    return [id_ for id_ in ids if id_ < end]
