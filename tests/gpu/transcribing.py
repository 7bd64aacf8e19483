"""`python -m tests.gpu.transcribing`: a question on stdin, the bytes that transcribing took on stdout."""

import json
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from studio.memory.inference_plan import InferencePlan
from studio.memory.measure import PeakMeter
from studio.registry.spec import ModelDimensions
from studio.training.probe.blank import write_blank_model
from studio.whisper.shared_sound import can_share, shared_sound
from tests.gpu.plans import dimensions_of


def main() -> None:
    """Reads one question, writes one answer."""
    question = json.load(sys.stdin)
    plan = InferencePlan(
        **{**question["plan"], "adapter_modules": tuple(question["plan"]["adapter_modules"])}
    )
    dimensions = dimensions_of(question["model"])
    with tempfile.TemporaryDirectory() as folder:
        if plan.engine == "transformers":
            answer = transformers_bytes(plan, dimensions, Path(folder))
        else:
            answer = faster_whisper_bytes(plan, dimensions, Path(question["folder"]), Path(folder))
    print(json.dumps(answer))


def transformers_bytes(plan: InferencePlan, dimensions: ModelDimensions, folder: Path) -> dict[str, Any]:
    """A blank model hears silence and writes to the last token; without an end token nothing stops it."""
    import torch
    import transformers as typed_transformers
    from transformers.modeling_outputs import BaseModelOutput

    transformers: Any = typed_transformers
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}[plan.precision]
    meter = PeakMeter()
    write_blank_model(folder, dimensions)
    model = transformers.WhisperForConditionalGeneration.from_pretrained(folder, dtype=dtype).to(device)
    shape = (plan.batch_size, dimensions.num_mel_bins, 2 * dimensions.max_source_positions)
    with torch.no_grad():
        encoded = model.get_encoder()(torch.zeros(shape, device=device, dtype=dtype)).last_hidden_state
        shares = can_share(model, plan.num_beams)
        with shared_sound(model, encoded) if shares else nullcontext() as shared:
            rows = transformers.GenerationMixin.generate(
                model,
                encoder_outputs=BaseModelOutput(last_hidden_state=encoded),
                decoder_input_ids=torch.ones((plan.batch_size, 1), device=device, dtype=torch.long),
                generation_config=transformers.GenerationConfig(
                    max_length=plan.max_length,
                    num_beams=plan.num_beams,
                    do_sample=False,
                    pad_token_id=0,
                    decoder_start_token_id=1,
                ),
                past_key_values=shared,
            )
    measured = meter.read()
    return {
        "tokens": int(rows.shape[1]),
        "allocated_bytes": measured.allocated_bytes,
        "device_bytes": measured.device_bytes,
        "process_bytes": measured.process_bytes,
    }


def faster_whisper_bytes(
    plan: InferencePlan, dimensions: ModelDimensions, source: Path, folder: Path
) -> dict[str, Any]:
    """A real model, converted; CTranslate2 has an allocator of its own, so only the driver can tell."""
    import ctranslate2
    import numpy as np
    import torch

    kind = {"fp16": "float16", "int8": "int8_float16", "fp32": "float32"}[plan.precision]
    ctranslate2.converters.TransformersConverter(str(source)).convert(str(folder / "ct2"), quantization=kind)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    compute = kind if device == "cuda" else "float32"
    meter = PeakMeter()
    model = ctranslate2.models.Whisper(str(folder / "ct2"), device=device, compute_type=compute)
    shape = (plan.batch_size, dimensions.num_mel_bins, 2 * dimensions.max_source_positions)
    features = ctranslate2.StorageView.from_array(np.zeros(shape, np.float32))
    results = model.generate(
        features,
        [["<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>"]] * plan.batch_size,
        beam_size=plan.num_beams,
        max_length=plan.max_length,
    )
    device_bytes = meter.context_bytes() if meter.is_cuda else None
    return {
        "tokens": len(results[0].sequences_ids[0]),
        "allocated_bytes": None,
        "device_bytes": device_bytes,
    }


if __name__ == "__main__":
    main()
