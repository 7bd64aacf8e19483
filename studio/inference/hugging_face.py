"""The engine of transformers: a base model and its adapters, switched without loading the base again."""

import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE, audio_duration, stream_audio
from studio.errors import ConfigError, ModelBrokenError
from studio.inference.decoding import Decoder, Search
from studio.inference.engine import OnProgress, Segment, ShouldStop, TranscribeOptions, Transcript
from studio.inference.hearing import Hearing
from studio.inference.languages import AUTO, join_texts, resolve_language
from studio.inference.long_form import hear_recording
from studio.inference.special_tokens import SpecialTokens
from studio.inference.voice_activity import has_voice
from studio.inference.windows import WINDOW_SECONDS
from studio.registry.spec import ModelDimensions
from studio.registry.tensors import read_json_object
from studio.registry.validate import check_adapter

ENGINE = "transformers"
DEVICES = ("auto", "cpu", "cuda")
TIMESTAMPS = ("none", "segment", "word")
ENGLISH_VOCABULARY = 51864
"""Tokens of OpenAI's English-only models."""


class LoadedBase:
    """A base model in memory with the adapters that were used on it. Only one of them is active at a time."""

    def __init__(self, decoder: Decoder, dimensions: ModelDimensions) -> None:
        """Made by `load_base`."""
        self._decoder = decoder
        self._dimensions = dimensions
        self._adapters: dict[str, tuple[Path, int]] = {}
        self._peft: Any = None
        self._lock = threading.RLock()
        self.is_spoiled = False
        """An adapter broke off half loaded: the model must not be used any more."""

    @property
    def size_bytes(self) -> int:
        """Memory of all weights, those of the adapters too."""
        model = self._decoder.model
        return sum(tensor.nbytes for tensor in [*model.parameters(), *model.buffers()])

    @property
    def adapters(self) -> tuple[str, ...]:
        """Ids of the adapters in memory."""
        return tuple(self._adapters)

    @property
    def tokens(self) -> SpecialTokens:
        """Its special tokens: which languages and tasks it knows."""
        return self._decoder.tokens

    def add_adapter(self, adapter_id: str, folder: Path) -> None:
        """Loads a LoRA, DoRA or AdaLoRA adapter beside the base, once, and again if its file changed.

        Raises:
            AdapterMismatchError: if it was made for a base of other dimensions.
            ModelBrokenError: if its files cannot be read.
        """
        weights = folder / "adapter_model.safetensors"
        if not weights.is_file():
            raise ModelBrokenError(
                "The adapter {adapter} has no adapter_model.safetensors: copy it again.", adapter=adapter_id
            )
        state = (folder, weights.stat().st_mtime_ns)
        with self._lock:
            if self._adapters.get(adapter_id) == state:
                return
            check_adapter(folder, self._dimensions)
            read_json_object(folder / "adapter_config.json")
            if adapter_id in self._adapters:
                del self._adapters[adapter_id]
                self._peft.delete_adapter(_module_name(adapter_id))
            self._load_adapter(adapter_id, folder)
            self._adapters[adapter_id] = state

    def _load_adapter(self, adapter_id: str, folder: Path) -> None:
        from peft import PeftModel
        from safetensors import SafetensorError

        name = _module_name(adapter_id)
        try:
            with warnings.catch_warnings():
                # What peft calls is deprecated in transformers: nothing that a visitor could do about it.
                warnings.simplefilter("ignore", FutureWarning)
                if self._peft is None:
                    self._peft = PeftModel.from_pretrained(self._decoder.model, folder, adapter_name=name)
                else:
                    self._peft.load_adapter(folder, adapter_name=name)
        except (OSError, ValueError, TypeError, KeyError, RuntimeError, SafetensorError) as error:
            self.is_spoiled = True
            raise ModelBrokenError(
                "The adapter {adapter} cannot be loaded ({reason}): train or copy it again.",
                adapter=adapter_id,
                reason=_first_line(error),
            ) from error
        self._peft.eval()

    @contextmanager
    def using(self, adapter_id: str | None) -> Iterator[Decoder]:
        """The decoder with one adapter active, or none, until the block ends; others wait for it."""
        import torch

        with self._lock, torch.inference_mode():
            if adapter_id is not None:
                self._peft.set_adapter(_module_name(adapter_id))
            with self._peft.disable_adapter() if self._peft and adapter_id is None else nullcontext():
                yield self._decoder


class HuggingFaceEngine:
    """A base, or a base with one of its adapters, as an `Engine`."""

    def __init__(self, base: LoadedBase, model_id: str, adapter_id: str | None = None) -> None:
        """`adapter_id` must have been added to `base`; `model_id` is what transcripts name."""
        self._lent: LoadedBase | None = base
        self._adapter_id = adapter_id
        self.model_id = model_id

    @property
    def _base(self) -> LoadedBase:
        assert self._lent is not None, "the lease of this engine has ended"
        return self._lent

    def release(self) -> None:
        """Lets go of the model, so that whoever still holds the engine does not keep it in memory."""
        self._lent = None

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes that the model knows; none for an English-only model."""
        return tuple(self._base.tokens.languages)

    def transcribe(
        self,
        audio_path: Path,
        options: TranscribeOptions,
        on_progress: OnProgress | None = None,
        should_stop: ShouldStop | None = None,
    ) -> Transcript:
        """Transcribes a recording of any length, a window at a time, never holding it whole in memory.

        If `should_stop` says so, the transcript ends with the window at hand.

        Raises:
            AudioError: if the file cannot be read.
            ConfigError: if the model lacks the language or the task, or an option has no such value.
        """
        return self.transcribe_samples(
            stream_audio(audio_path),
            audio_duration(audio_path),
            options,
            on_progress,
            should_stop,
            audio_path=str(audio_path),
        )

    def transcribe_samples(
        self,
        blocks: Iterable[NDArray[np.float32]],
        total_seconds: float,
        options: TranscribeOptions,
        on_progress: OnProgress | None = None,
        should_stop: ShouldStop | None = None,
        *,
        audio_path: str = "",
    ) -> Transcript:
        """The same for blocks of mono samples at 16 kHz; `total_seconds` is their length as far as known.

        Raises:
            ConfigError: if the model lacks the language or the task, or an option has no such value.
        """
        began = time.perf_counter()
        language = self._checked(options)
        with_times = options.timestamps != "none" or total_seconds > WINDOW_SECONDS
        hearing = Hearing(self._acquire, options, language, with_times=with_times)
        segments, duration = hear_recording(blocks, total_seconds, hearing, on_progress, should_stop)
        written = "en" if options.task == "translate" else hearing.language
        text = join_texts([segment.text for segment in segments], written)
        if options.timestamps == "none":
            segments = (Segment(0.0, duration, text),) if text else ()
        return Transcript(
            text=text,
            segments=segments,
            language=hearing.language,
            duration_seconds=duration,
            model=self.model_id,
            engine=ENGINE,
            processing_seconds=time.perf_counter() - began,
            audio_path=audio_path,
        )

    def transcribe_batch(
        self, clips: Sequence[NDArray[np.float32]], options: TranscribeOptions, languages: Sequence[str]
    ) -> list[str]:
        """Plain texts of clips of at most 30 s, decoded together and without judging whether anybody speaks.

        `languages` has a name, code or `auto` for each clip.

        Raises:
            ConfigError: if the model lacks a language or the task.
        """
        self._checked(options)
        codes = [resolve_language(language, self.languages) for language in languages]
        with self._acquire() as decoder:
            encoded = decoder.encode(clips)
            if AUTO in codes:
                detected = [next(iter(row)) for row in decoder.language_probabilities(encoded)]
                codes = [seen if code == AUTO else code for code, seen in zip(codes, detected, strict=True)]
            prompts = [decoder.tokens.prompt(code, options.task, with_times=False) for code in codes]
            search = Search(options.num_beams, max_new_tokens=options.max_new_tokens)
            rows = decoder.generate(encoded, prompts, search)
            return [decoder.text_of(row).strip() for row in rows]

    def detect_language(self, samples: NDArray[np.float32]) -> dict[str, float]:
        """Code → probability, likeliest first, from the first 30 s; empty where nothing is heard.

        An English-only model answers `{"en": 1.0}`.
        """
        window = samples[: int(WINDOW_SECONDS * SAMPLING_RATE)]
        if not has_voice(window):
            return {}
        if not self.languages:
            return {"en": 1.0}
        with self._acquire() as decoder:
            return decoder.language_probabilities(decoder.encode([window]))[0]

    def _acquire(self) -> AbstractContextManager[Decoder]:
        return self._base.using(self._adapter_id)

    def _checked(self, options: TranscribeOptions) -> str:
        """The language as a code or `auto`; the other options are what they may be."""
        if options.timestamps not in TIMESTAMPS:
            raise ConfigError(
                "There are no timestamps {given!r}: choose none, segment or word.", given=options.timestamps
            )
        if options.num_beams < 1:
            raise ConfigError("num_beams must be at least 1, got {given}.", given=options.num_beams)
        self._base.tokens.checked_task(options.task)
        return resolve_language(options.language, self.languages)


def load_base(folder: Path, *, device: str = "auto", threads: int = 0) -> LoadedBase:
    """Loads a Whisper from a folder: float32 on a CPU; on a GPU bfloat16 where it has that, else float16.

    `threads` above 0 sets torch's threads of this process.

    Raises:
        ConfigError: if the device is not there.
        ModelBrokenError: if the folder cannot be loaded.
    """
    import torch
    import transformers as typed_transformers
    from safetensors import SafetensorError

    transformers: Any = typed_transformers
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    place, dtype = _device(device)
    if threads > 0:
        torch.set_num_threads(threads)
    dimensions = ModelDimensions.from_config(read_json_object(folder / "config.json"))
    try:
        model = transformers.WhisperForConditionalGeneration.from_pretrained(
            folder, dtype=dtype, use_safetensors=True, local_files_only=True
        )
        tokenizer = transformers.WhisperTokenizer.from_pretrained(folder, local_files_only=True)
        extractor = transformers.WhisperFeatureExtractor.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelBrokenError(
            "The model in {folder} cannot be loaded ({reason}): copy or download it again.",
            folder=folder,
            reason=_first_line(error),
        ) from error
    settings = model.generation_config.to_dict()
    is_multilingual = settings.get("is_multilingual")
    if is_multilingual is None:
        is_multilingual = dimensions.vocab_size != ENGLISH_VOCABULARY
    tokens = SpecialTokens.of(tokenizer, is_multilingual=bool(is_multilingual))
    model.generation_config = transformers.GenerationConfig()
    model.to(place).eval()
    return LoadedBase(Decoder(model, tokenizer, extractor, tokens, settings), dimensions)


def _device(name: str) -> tuple[str, Any]:
    import torch

    has_gpu = torch.cuda.is_available()
    if name not in DEVICES:
        raise ConfigError("There is no device {name!r}: choose auto, cuda or cpu.", name=name)
    if name == "cuda" and not has_gpu:
        raise ConfigError("The device cuda was asked for, and there is no GPU here: choose auto or cpu.")
    if name == "cpu" or not has_gpu:
        return "cpu", torch.float32
    return "cuda", torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16


def _module_name(adapter_id: str) -> str:
    """Adapters are modules inside the model, and the name of a module has no dot."""
    return adapter_id.replace(".", "·")


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
