"""A piece of a training step as it is played on a tape: what it keeps, and its worst moments."""

from dataclasses import dataclass

from studio.memory.tape import ZERO, Moment, Tape, Tensor


@dataclass(frozen=True)
class LayerSegment:
    """A piece of the step: bytes that it keeps, and its worst moments, all without the rest of the step."""

    kept: Moment
    """From its forward pass to its backward pass, its input included and its output not."""
    forward: float
    """Live bytes at the worst moment of its forward pass, its input included."""
    backward: Moment
    """The worst moment of its backward pass, with what it keeps and the gradient it is given."""
    after: Moment
    """What its backward pass leaves: gradients of weights, and what only the graph's end frees."""
    cached: float = 0.0
    """Casted weights that only autocast's cache holds, until the end of the forward pass."""
    keeps_states: bool = False
    """Whether a decoder layer keeps the encoder's states themselves, rather than copies in another type."""
    pins_states: bool = False
    """Whether it does so until the graph's end."""
    passed_on: float = 0.0
    """Gradient of the encoder's states that a decoder layer makes, once for all layers."""


def end_region(tape: Tape) -> float:
    """Autocast lets go of its casts; gives back the bytes that nobody else held."""
    before = tape.casts
    for cast in tape.cache.values():
        tape.drop(cast)
    tape.cache.clear()
    return before - tape.casts


def play_backward(
    tape: Tape, y: Tensor, x: Tensor, states: Tensor, forward: float, cached: float = 0.0
) -> LayerSegment:
    """Plays the tape with a gradient of `y`, which the next segment holds by now."""
    now = tape.now()
    kept = Moment(now.live - y.numbers * y.width, now.casts, now.gradients)
    if not y.needs:
        return LayerSegment(kept, forward, ZERO, ZERO, cached=cached)
    tape.drop(y)
    gradient = tape.new(y.numbers, y.width)
    tape.peak = tape.now()
    tape.backward(y, gradient)
    out = x.grad.numbers * x.grad.width if x.grad else 0.0
    passed = states.grad.numbers * states.grad.width if states.grad else 0.0
    after = Moment(tape.live - out - passed, 0.0, tape.gradients)
    return LayerSegment(kept, forward, tape.peak, after, cached=cached, passed_on=passed)
