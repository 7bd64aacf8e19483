"""Training of the demo model from scratch."""

import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from torch.nn import functional
from transformers import WhisperForConditionalGeneration, WhisperTokenizer

from .batches import IGNORED, Batch, Targets, pad_features
from .clips import Clip
from .dataset import make_dataset
from .features import feature_extractor
from .measure import held_out_clips, word_error_rate
from .model import GUIDED_HEADS, build_model, encode, fit_convolutions, logits_at
from .sampling import batches
from .stages import STAGES, Stage
from .tokenizer import TEXT_TOKENS, build_tokenizer, token_id

_SMEAR = tuple(math.exp(-0.5 * (offset / 1.0) ** 2) for offset in range(-3, 4))
"""A time is right if it is near: the target of a time token is a bell of 20 ms width around it."""


_SOUND_WEIGHT = 1.0
"""Weight of the encoder's auxiliary loss."""
_GUIDE_WEIGHT = 0.3
"""Weight of the loss that leads the attention of some heads to where a token is heard."""
_REPORT_EVERY = 50
_MEASURE_EVERY = 300
_CHECKED_CLIPS = 60


def smeared_loss(logits: torch.Tensor, targets: torch.Tensor, first_time: int) -> torch.Tensor:
    """Mean cross-entropy of logits (places, vocabulary) with smeared targets where the target is a time."""
    logarithms = logits.float().log_softmax(-1)
    is_time = targets >= first_time
    plain = -logarithms[~is_time].gather(1, targets[~is_time, None]).sum()
    offsets = torch.arange(-3, 4, device=targets.device)
    weights = torch.tensor(_SMEAR, device=targets.device)
    near = targets[is_time, None] + offsets
    valid = (near >= first_time) & (near < logits.shape[1])
    shares = weights * valid
    shares = shares / shares.sum(1, keepdim=True)
    near = near.clamp(first_time, logits.shape[1] - 1)
    timed = -(logarithms[is_time].gather(1, near) * shares).sum()
    return (plain + timed) / len(targets)


def sound_loss(logits: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Cross-entropy of what is said, from logits (clips, positions, text tokens + silence)."""
    return functional.cross_entropy(
        logits.float().flatten(0, 1), batch.sounds.to(logits.device).flatten(), ignore_index=IGNORED
    )


def guide_loss(weights: torch.Tensor, batch: Batch) -> torch.Tensor:
    """How much attention (clips, heads, places, positions) misses where tokens are heard, mean over them."""
    guides = batch.guides.to(weights.device)
    if not len(guides):
        return weights.sum() * 0.0
    rows = weights[guides[:, 0], :GUIDED_HEADS, guides[:, 1]].float()
    positions = torch.arange(weights.shape[-1], device=weights.device)
    inside = (positions >= guides[:, 2:3]) & (positions <= guides[:, 3:4])
    return -(rows * inside[:, None]).sum(-1).clamp_min(1e-4).log().mean()


def _watch_attention(model: WhisperForConditionalGeneration) -> list[torch.Tensor]:
    """A list that always holds the last decoder layer's cross-attention of the latest forward pass."""
    attention = model.model.decoder.layers[-1].encoder_attn
    attention.config = copy.copy(attention.config)
    attention.config._attn_implementation = "eager"  # the fused kernels do not return weights
    latest: list[torch.Tensor] = [torch.empty(0)]

    def keep(_module: torch.nn.Module, _inputs: object, output: tuple[torch.Tensor, torch.Tensor]) -> None:
        latest[0] = output[1]

    attention.register_forward_hook(keep)
    return latest


def half_precision(device: torch.device) -> bool:
    """Whether bfloat16 is fast here: on a GPU, and on CPUs with AVX-512 bf16."""
    supported = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return device.type == "cuda" or bool(supported())


class Run:
    """A model, its optimizer and the steps."""

    def __init__(self, model: WhisperForConditionalGeneration, first_time: int) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.train()
        self.model.to(self.device)
        self._first_time = first_time
        self._autocast = half_precision(self.device)
        decayed = [p for p in model.parameters() if p.requires_grad and p.dim() > 1]
        others = [p for p in model.parameters() if p.requires_grad and p.dim() <= 1]
        groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
        # Discarded after training: names the token heard at each position. Without it and the guided heads
        # the decoder guesses from its own words for a thousand steps before it learns to listen.
        self._listener = torch.nn.Linear(model.config.d_model, TEXT_TOKENS + 1).to(self.device)
        groups.append({"params": list(self._listener.parameters()), "weight_decay": 0.0})
        self._attention = _watch_attention(self.model)
        self._optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98))

    def step(self, batch: Batch, learning_rate: float) -> tuple[float, float, float]:
        """One optimizer step; the losses of tokens, of sounds and of guided attention."""
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        where = batch.targets.to(self.device) != IGNORED
        targets = batch.targets.to(self.device)[where]
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._autocast):
            states = encode(self.model, batch.features.to(self.device))
            logits = logits_at(self.model, states, batch.inputs.to(self.device), where)
            heard = self._listener(states)
        loss = smeared_loss(logits, targets, self._first_time)
        guided = guide_loss(self._attention[0], batch)
        sound = sound_loss(heard, batch)
        total = loss + _SOUND_WEIGHT * sound + _GUIDE_WEIGHT * guided
        self._optimizer.zero_grad(set_to_none=True)
        total.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self._optimizer.step()
        return float(loss.detach()), float(sound.detach()), float(guided.detach())


def train_model(folder: Path, stages: Sequence[Stage] = STAGES, seed: int = 0, first_stage: int = 1) -> None:
    """Train stage by stage, and save the model to a folder, also now and then on the way.

    From scratch, or with the model in the folder from a later stage on, one that has clips of its own.
    """
    tokenizer = build_tokenizer(seed)
    model = build_model(tokenizer, seed)
    if first_stage > 1:
        saved = WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
        model.load_state_dict(saved.state_dict())
    check = held_out_clips(_CHECKED_CLIPS)
    targets, first_time = Targets(tokenizer), token_id(tokenizer, "<|0.00|>")
    clips: dict[str, list[Clip]] = {}
    run: Run | None = None
    for number, stage in enumerate(stages[first_stage - 1 :], first_stage - 1):
        started = time.monotonic()
        if stage.clips is not None:
            clips = make_dataset(stage.clips)
            print(f"stage {number + 1}: clips made in {time.monotonic() - started:.0f} s", flush=True)
            if number == 0:
                fit_convolutions(model, pad_features(clips["single"][:64], 300))
            run = Run(model, first_time)
        if run is None:
            raise ValueError("The first of these stages has no clips.")
        _train(
            run,
            stage,
            batches(clips, targets, stage, seed + number),
            lambda: _check(model, tokenizer, check, folder),
        )
    save_model(model, tokenizer, folder)


def _check(
    model: WhisperForConditionalGeneration, tokenizer: WhisperTokenizer, clips: Sequence[Clip], folder: Path
) -> None:
    """Print the errors on held-out clips; save."""
    print(f"held-out errors {word_error_rate(model, tokenizer, clips)} %", flush=True)
    save_model(model, tokenizer, folder)
    model.train()


def _train(run: Run, stage: Stage, supply: Iterator[Batch], check: Callable[[], None]) -> None:
    started, losses = time.monotonic(), []
    for number, batch in enumerate(supply):
        losses.append(run.step(batch, stage.learning_rate(number)))
        if (number + 1) % _REPORT_EVERY == 0:
            means = " ".join(f"{sum(column) / len(column):.3f}" for column in zip(*losses, strict=True))
            print(f"step {number + 1} losses {means} {time.monotonic() - started:.0f} s", flush=True)
            losses = []
        if (number + 1) % _MEASURE_EVERY == 0:
            check()


def save_model(model: WhisperForConditionalGeneration, tokenizer: WhisperTokenizer, folder: Path) -> None:
    """Write a Hugging Face folder with 16-bit weights; the model itself stays as it is."""
    weights = {name: value.detach().half().cpu() for name, value in model.state_dict().items()}
    copy = build_model(tokenizer).half()  # type: ignore[no-untyped-call]
    copy.load_state_dict(weights)
    copy.generation_config = model.generation_config
    copy.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    tokenizer.backend_tokenizer.model.save(
        str(folder)
    )  # vocab.json and merges.txt, which some converters read
    feature_extractor().save_pretrained(folder)
    for file in folder.iterdir():
        file.chmod(0o644)  # some writers leave files that only their owner may read
