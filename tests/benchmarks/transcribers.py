"""What `tests.benchmarks.transcription` compares: each way to transcribe, in a process of its own.

The process loads a model, says `ready`, and then answers each line of its input with a line of JSON: the line
is `short 3` for the fourth clip or `long` for the recording, the answer has the text, the seconds of the
processor, those of the clock, and the largest memory so far.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE
from studio.registry.spec import ModelKind, ModelSource, ModelSpec
from studio.registry.tensors import read_json_object
from studio.registry.validate import read_card
from studio.transcription.engine import TranscribeOptions
from studio.transcription.windows import WindowLengths

Sound = NDArray[np.float32]
Hear = Callable[[Sound, bool], str]
"""Samples, and whether they are a long recording → text."""
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


def _pipeline(model: Path, _export: Path, language: str) -> Hear:
    import torch
    from transformers import pipeline

    torch.set_num_threads(1)
    plain: Any = pipeline("automatic-speech-recognition", model=str(model), device="cpu")
    steering = {"language": language, "task": "transcribe"}

    def hear(samples: Sound, is_long: bool) -> str:
        given = {"raw": samples, "sampling_rate": SAMPLING_RATE}
        return str(plain(given, return_timestamps=is_long, generate_kwargs=steering)["text"])

    return hear


def _openai(model: Path, _export: Path, language: str) -> Hear:
    import torch
    from whisper.model import ModelDimensions, Whisper

    torch.set_num_threads(1)
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
    plain.eval()

    def hear(samples: Sound, _is_long: bool) -> str:
        return str(plain.transcribe(samples, language=language, fp16=False)["text"])

    return hear


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


def _faster(
    *,
    clip: dict[str, Any] | None = None,
    recording: dict[str, Any] | None = None,
    suppresses_as_ours: bool = False,
) -> Callable[[Path, Path, str], Hear]:
    """`recording`: options of the batched pipeline; None: windows one after the other, as clips are.

    `suppresses_as_ours`: never writes the tokens that the model names; else those of faster-whisper's list.
    """

    def load(_model: Path, export: Path, language: str) -> Hear:
        from faster_whisper import BatchedInferencePipeline, WhisperModel

        named: dict[str, Any] = {}
        if suppresses_as_ours:
            named["suppress_tokens"] = read_json_object(export / "config.json").get("suppress_ids") or []
        plain = WhisperModel(str(export), device="cpu", compute_type="float32", cpu_threads=1)
        together = BatchedInferencePipeline(plain)

        def hear(samples: Sound, is_long: bool) -> str:
            if is_long and recording is not None:
                found = together.transcribe(samples, language=language, **recording, **named)[0]
            else:
                found = plain.transcribe(samples, language=language, **(clip or {}), **named)[0]
            return "".join(segment.text for segment in found)

        return hear

    return load


def _studio_transformers(model: Path, _export: Path, language: str) -> Hear:
    from studio.transcription.hugging_face import HuggingFaceEngine
    from studio.transcription.loaded_base import load_base

    base = load_base(model, device="cpu", threads=1)
    context, windows = _trained_on(model)
    return _ours(HuggingFaceEngine(base, "model", audio_context=context, windows=windows), language)


def _studio_faster(model: Path, export: Path, language: str) -> Hear:
    from studio.transcription.ctranslate2 import FasterWhisperEngine
    from studio.transcription.loaded_export import load_export

    loaded = load_export(export, device="cpu", threads=1)
    return _ours(FasterWhisperEngine(loaded, "model", *_trained_on(model)), language)


def _trained_on(model: Path) -> tuple[str, WindowLengths]:
    """What the model was trained to see, as its card says."""
    spec = ModelSpec("model", ModelKind.BASE, ModelSource.TRAINED, "", card=read_card(model))
    return spec.audio_context, WindowLengths.of_clips(spec.clip_seconds)


def _ours(engine: Any, language: str) -> Hear:
    whole = TranscribeOptions(language=language)
    text_only = TranscribeOptions(language=language, timestamps="none")

    def hear(samples: Sound, is_long: bool) -> str:
        options = whole if is_long else text_only
        return str(engine.transcribe_samples([samples], len(samples) / SAMPLING_RATE, options).text)

    return hear


_OURS = {"vad_filter": True, "condition_on_previous_text": False}
LOADERS: dict[str, Callable[[Path, Path, str], Hear]] = {
    "pipeline": _pipeline,
    "openai": _openai,
    "faster": _faster(),
    "faster-batched": _faster(recording={"batch_size": WINDOWS_TOGETHER}),
    "faster-as-ours": _faster(
        clip={**_OURS, "without_timestamps": True},
        recording={**_OURS, "without_timestamps": False, "batch_size": WINDOWS_TOGETHER},
        suppresses_as_ours=True,
    ),
    "studio-transformers": _studio_transformers,
    "studio-faster": _studio_faster,
}


def peak_mib() -> float:
    """The largest memory this process has had, in MiB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1024


def serve(variant: str, sounds: Path, model: Path, export: Path, language: str) -> None:
    """Answers each line of the input; `sounds` is a folder with `0.npy`, `1.npy`, … and `long.npy`."""
    hear = LOADERS[variant](model, export, language)
    hear(np.load(sounds / "0.npy"), False)
    print("ready", flush=True)
    for line in sys.stdin:
        kind, _, number = line.strip().partition(" ")
        samples = np.load(sounds / f"{number or kind}.npy")
        began, began_wall = time.process_time(), time.perf_counter()
        text = hear(samples, kind == "long")
        answer = {
            "text": text,
            "cpu": time.process_time() - began,
            "wall": time.perf_counter() - began_wall,
            "peak": peak_mib(),
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]), sys.argv[5])
