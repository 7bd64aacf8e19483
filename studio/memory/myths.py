"""What common guides say about Whisper's memory, and what is true, with our own figures put in."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from studio.memory.inference import self_cache_bytes
from studio.memory.ladder import estimate_of
from studio.memory.plan import Part, TrainingPlan
from studio.messages import Message
from studio.registry.catalog import find_released
from studio.registry.parameters import count_parameters
from studio.registry.spec import ModelDimensions
from studio.units import format_bytes, format_count, format_percent
from studio.whisper.audio_context import positions_of

_LORA = TrainingPlan(target_modules=("q_proj", "v_proj"), base_dtype="bf16")
_FULL = TrainingPlan(method="full")


@dataclass(frozen=True)
class Claim:
    """A sentence that many have read, and the truth."""

    key: str
    said: Message
    truth: Message


def claims() -> tuple[Claim, ...]:
    """All of them; the figures are those that the calculator gives now."""
    return tuple(Claim(key, said, truth()) for key, (said, truth) in _CLAIMS.items())


def claim(key: str) -> Claim:
    """One of them."""
    said, truth = _CLAIMS[key]
    return Claim(key, said, truth())


def _shape(name: str) -> ModelDimensions:
    model = find_released(name)
    assert model is not None and model.dimensions is not None, name
    return model.dimensions


def _size(plan: TrainingPlan, model: str = "large-v3") -> int:
    return estimate_of(plan, _shape(model)).device_bytes


def _batch() -> Message:
    plan = replace(_LORA, gradient_checkpointing=True)
    before, after = _size(plan), _size(replace(plan, batch_size=2))
    return Message(
        "Only what grows with the batch shrinks: LoRA on large-v3 with checkpointing goes from {before} to "
        "{after}, {share} less.",
        before=format_bytes(before),
        after=format_bytes(after),
        share=format_percent(1 - after / before),
    )


def _audio() -> Message:
    plan = replace(_LORA, loss_chunk_size=256)
    return Message(
        "Nothing, as long as clips are padded to 30 seconds as Whisper wants them. Where the encoder sees "
        "their own length (short audio), LoRA on large-v3 goes from {padded} to {short}.",
        padded=format_bytes(_size(plan)),
        short=format_bytes(_size(replace(plan, audio_positions=positions_of(15), has_padded_batches=True))),
    )


def _half() -> Message:
    single, half = _size(replace(_FULL, precision="fp32")), _size(_FULL)
    return Message(
        "Weights, gradients and Adam's moments stay in fp32, and half-precision copies of the weights are "
        "added; only activations shrink: training all of large-v3 goes from {single} to {half}.",
        single=format_bytes(single),
        half=format_bytes(half),
    )


def _bits() -> Message:
    return Message(
        "Gradient checkpointing comes first: LoRA on large-v3 takes {plain}, in 8 bits even {bits}, with "
        "checkpointing alone {checkpointing}. Where 8 bits seem to help, they had switched it on.",
        plain=format_bytes(_size(_LORA)),
        bits=format_bytes(_size(replace(_LORA, quantization="8bit"))),
        checkpointing=format_bytes(_size(replace(_LORA, gradient_checkpointing=True))),
    )


def _twelve() -> Message:
    small = replace(_FULL, batch_size=1, gradient_checkpointing=True)
    return Message(
        "With LoRA and checkpointing it takes {lora}; with all weights {full} even in batches of one.",
        lora=format_bytes(_size(replace(_LORA, gradient_checkpointing=True))),
        full=format_bytes(_size(small)),
    )


def _weight() -> Message:
    parameters = count_parameters(_shape("large-v3"))
    return Message(
        "{count} parameters of four bytes are {size}; half of that in fp16.",
        count=format_count(parameters),
        size=format_bytes(4 * parameters),
    )


def _full() -> Message:
    parts = estimate_of(_FULL, _shape("large-v3")).parts
    states = 2 * parts[Part.WEIGHTS_TRAINABLE] + parts[Part.OPTIMIZER_STATES]
    return Message(
        "Weights, gradients and Adam's two moments are 16 bytes a parameter: {states} before the first "
        "activation.",
        states=format_bytes(states),
    )


def _square() -> Message:
    large = _shape("large-v3")
    return Message(
        "The text's cache grows in proportion to it: {one} for 100 tokens of large-v3, {four} for 400.",
        one=format_bytes(self_cache_bytes(large, 100, 2)),
        four=format_bytes(self_cache_bytes(large, 400, 2)),
    )


def _small() -> Message:
    return Message(
        "whisper-small has {small}; the one with about 74 million is whisper-base ({base}).",
        small=format_count(count_parameters(_shape("small"))),
        base=format_count(count_parameters(_shape("base"))),
    )


_CLAIMS: dict[str, tuple[Message, Callable[[], Message]]] = {
    "bits": (Message("8 bits halve everything, and come first."), _bits),
    "batch": (Message("A batch of 2 instead of 8 saves 75 %."), _batch),
    "audio": (Message("max_audio_len 15 instead of 30 saves half."), _audio),
    "half": (Message("fp16 halves everything."), _half),
    "twelve": (Message("large-v3 can be fine-tuned in 12 GB, whatever the method."), _twelve),
    "full": (Message("All weights of large can be trained in 4 to 6 GB."), _full),
    "weight": (Message("large weighs 2.5 GB in fp32."), _weight),
    "square": (Message("The decoder's cache grows with the square of the text's length."), _square),
    "small": (Message("whisper-small has 74 million parameters."), _small),
}
