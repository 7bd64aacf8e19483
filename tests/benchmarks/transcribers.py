"""What `tests.benchmarks.transcription` compares: each way to transcribe, in a process of its own.

The process loads a model, says `ready`, and then answers each line of its input with a line of JSON. A line
is `{"path": …, "language": …, "with_words": …}`, the path that of a NumPy file of samples; the answer has the
text, the words with their times if they were asked for, the seconds of the processor, those of the clock, and
the largest memory so far.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE
from studio.options.choices import FASTER_WHISPER, TRANSFORMERS
from studio.registry.spec import ModelKind, ModelSource, ModelSpec
from studio.registry.validate import read_card
from studio.transcription.engine import TranscribeOptions
from studio.transcription.windows import WindowLengths

Sound = NDArray[np.float32]
TimedWord = tuple[str, float, float]
"""Text, start and end in seconds."""
Heard = tuple[str, list[TimedWord]]
Hear = Callable[[Sound, str, bool], Heard]
"""Samples, language, and whether words are timed → text and words."""
WINDOWS_TOGETHER = 8
"""As the studio does with a long recording; faster-whisper's guide leaves the number to the reader."""
_OPENAI_NAMES = {
    "self_attn_layer_norm": "attn_ln",
    "encoder_attn_layer_norm": "cross_attn_ln",
    "final_layer_norm": "mlp_ln",
    "self_attn": "attn",
    "encoder_attn": "cross_attn",
    "q_proj": "query",
    "k_proj": "key",
    "v_proj": "value",
    "out_proj": "out",
    "layers": "blocks",
    "fc1": "mlp.0",
    "fc2": "mlp.2",
    "embed_tokens": "token_embedding",
}
"""Parts of a weight's name in transformers → in openai-whisper."""


def _pipeline(**long_form: Any) -> Callable[[Path, Path], Hear]:
    """`long_form`: how it takes what is longer than 30 s; nothing: window after window."""

    def load(model: Path, _export: Path) -> Hear:
        import torch
        from transformers import pipeline

        torch.set_num_threads(1)
        plain: Any = pipeline("automatic-speech-recognition", model=str(model), device="cpu")

        def hear(samples: Sound, language: str, with_words: bool) -> Heard:
            is_long = len(samples) > 30 * SAMPLING_RATE
            found = plain(
                {"raw": samples, "sampling_rate": SAMPLING_RATE},
                return_timestamps="word" if with_words else is_long,
                generate_kwargs={"language": _told(language), "task": "transcribe"},
                **(long_form if is_long else {}),
            )
            chunks = found.get("chunks", []) if with_words else []
            words = [(c["text"], *c["timestamp"]) for c in chunks if None not in c["timestamp"]]
            return str(found["text"]), words

        return hear

    return load


def _openai(model: Path, _export: Path) -> Hear:
    import torch

    plain = openai_model(model)
    torch.set_num_threads(1)

    def hear(samples: Sound, language: str, with_words: bool) -> Heard:
        found = plain.transcribe(samples, language=_told(language), fp16=False, word_timestamps=with_words)
        words = [word for segment in found["segments"] for word in segment.get("words", ())]
        return str(found["text"]), [(word["word"], word["start"], word["end"]) for word in words]

    return hear


def openai_model(model: Path) -> Any:
    """The weights of a Whisper folder as openai-whisper plays them."""
    from whisper.model import ModelDimensions, Whisper

    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    plain: Any = Whisper(
        ModelDimensions(
            n_mels=config["num_mel_bins"],
            n_audio_ctx=config["max_source_positions"],
            n_audio_state=config["d_model"],
            n_audio_head=config["encoder_attention_heads"],
            n_audio_layer=config["encoder_layers"],
            n_vocab=config["vocab_size"],
            n_text_ctx=config["max_target_positions"],
            n_text_state=config["d_model"],
            n_text_head=config["decoder_attention_heads"],
            n_text_layer=config["decoder_layers"],
        )
    )
    plain.load_state_dict(_openai_weights(model))
    settings = json.loads((model / "generation_config.json").read_text(encoding="utf-8"))
    heads = np.zeros((config["decoder_layers"], config["decoder_attention_heads"]), dtype=bool)
    for layer, head in settings["alignment_heads"]:
        heads[layer, head] = True
    import torch

    plain.register_buffer("alignment_heads", torch.from_numpy(heads).to_sparse(), persistent=False)
    return plain.eval()


def _openai_weights(model: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    found = {}
    for name, tensor in load_file(model / "model.safetensors").items():
        if name.startswith("proj_out"):
            continue
        parts = [_OPENAI_NAMES.get(part, part) for part in name.removeprefix("model.").split(".")]
        if parts[1] == "layer_norm":
            parts[1] = "ln_post" if parts[0] == "encoder" else "ln"
        if parts[1] == "embed_positions":
            parts[1:] = ["positional_embedding"]
        found[".".join(parts)] = tensor.float()
    return found


def _told(language: str) -> str | None:
    return None if language == "auto" else language


def _faster(*, is_batched: bool, multilingual: bool = False) -> Callable[[Path, Path], Hear]:
    def load(_model: Path, export: Path) -> Hear:
        from faster_whisper import BatchedInferencePipeline, WhisperModel

        plain = WhisperModel(str(export), device="cpu", compute_type="float32", cpu_threads=1)
        together = BatchedInferencePipeline(plain)

        def hear(samples: Sound, language: str, with_words: bool) -> Heard:
            options: dict[str, Any] = {"language": _told(language), "word_timestamps": with_words}
            options["multilingual"] = multilingual
            if is_batched:
                found: Iterable[Any] = together.transcribe(samples, batch_size=WINDOWS_TOGETHER, **options)[0]
            else:
                found = plain.transcribe(samples, **options)[0]
            segments = list(found)
            words = [word for segment in segments for word in segment.words or ()]
            text = "".join(segment.text for segment in segments)
            return text, [(word.word, float(word.start), float(word.end)) for word in words]

        return hear

    return load


def _studio(*, is_exported: bool, batch_size: int) -> Callable[[Path, Path], Hear]:
    def load(model: Path, export: Path) -> Hear:
        from studio.transcription.loading import loader
        from studio.transcription.transcriber import Transcriber

        folder, engine = (export, FASTER_WHISPER) if is_exported else (model, TRANSFORMERS)
        loaded = loader(threads=1)(folder, engine, "float32", "cpu")
        context, windows = _trained_on(model)
        return _ours(Transcriber(loaded, "model", None, context, windows), batch_size)

    return load


def _trained_on(model: Path) -> tuple[str, WindowLengths]:
    """What the model was trained to see, as its card says."""
    spec = ModelSpec("model", ModelKind.BASE, ModelSource.TRAINED, "", card=read_card(model))
    return spec.audio_context, WindowLengths.of_clips(spec.clip_seconds)


def _ours(engine: Any, batch_size: int) -> Hear:
    def hear(samples: Sound, language: str, with_words: bool) -> Heard:
        options = TranscribeOptions(
            language=language, batch_size=batch_size, timestamps="word" if with_words else "segment"
        )
        found = engine.transcribe_samples([samples], len(samples) / SAMPLING_RATE, options)
        words = [word for segment in found.segments for word in segment.words]
        return found.text, [(word.text, word.start_seconds, word.end_seconds) for word in words]

    return hear


LOADERS: dict[str, Callable[[Path, Path], Hear]] = {
    "pipeline": _pipeline(),
    "pipeline-batched": _pipeline(chunk_length_s=30, batch_size=WINDOWS_TOGETHER),
    "openai": _openai,
    "faster": _faster(is_batched=False),
    "faster-batched": _faster(is_batched=True),
    "faster-multilingual": _faster(is_batched=False, multilingual=True),
    "studio-transformers": _studio(is_exported=False, batch_size=0),
    "studio-transformers-batched": _studio(is_exported=False, batch_size=WINDOWS_TOGETHER),
    "studio-ctranslate2": _studio(is_exported=True, batch_size=0),
    "studio-ctranslate2-batched": _studio(is_exported=True, batch_size=WINDOWS_TOGETHER),
}


def peak_mib() -> float:
    """The largest memory this process has had, in MiB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1024


def serve(variant: str, model: Path, export: Path) -> None:
    """Answers each line of the input."""
    hear = LOADERS[variant](model, export)
    hear(np.zeros(SAMPLING_RATE, np.float32), "en", False)
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        samples = np.load(asked["path"])
        began, began_wall = time.process_time(), time.perf_counter()
        text, words = hear(samples, asked["language"], asked["with_words"])
        answer = {
            "text": text,
            "words": words,
            "cpu": time.process_time() - began,
            "wall": time.perf_counter() - began_wall,
            "peak": peak_mib(),
        }
        print(json.dumps(answer, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
