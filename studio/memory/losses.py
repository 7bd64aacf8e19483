"""From logits to a loss, played on a tape: the loss, and bytes of autocast's casts when it is there."""

from studio.memory.adapter_operators import LayerOperators
from studio.memory.segments import end_region
from studio.memory.tape import Tensor


def model_loss(operators: LayerOperators, logits: Tensor, *, is_autocast: bool) -> tuple[Tensor, float]:
    """The model's own: cross-entropy within autocast, whose outputs are then copied to float32."""
    tape = operators.tape
    log_probabilities = tape.new(logits.numbers, logits.width)
    tape.record(log_probabilities, (log_probabilities,), ((logits, logits.width),))
    raised = operators.cast(log_probabilities, 4 if is_autocast else log_probabilities.width)
    tape.drop(log_probabilities)
    loss = tape.record(tape.new(1.0, 4), (raised,), ((raised, raised.width),))
    tape.drop(raised)
    cached = end_region(tape)
    if is_autocast:
        tape.touch(4 * logits.numbers)
    return loss, cached


def smoothed_loss(operators: LayerOperators, logits: Tensor, *, is_autocast: bool) -> tuple[Tensor, float]:
    """With smoothed labels: outside of autocast, in float32; lets go of `logits`.

    Two gradients meet in the log-probabilities, that of the label and that of all tokens; the latter is
    one number a row, spread out as a view.
    """
    tape = operators.tape
    cached = end_region(tape)
    raised = operators.cast(logits, 4)
    if is_autocast:  # there the raised ones take the place of the model's output
        tape.drop(logits)
    log_probabilities = tape.new(raised.numbers, 4)
    tape.record(log_probabilities, (log_probabilities,), ((raised, 4),))
    loss = tape.record(tape.new(1.0, 4), (), ((log_probabilities, 4),))
    tape.drop(log_probabilities)
    tape.drop(raised)
    if not is_autocast:
        tape.drop(logits)
    return loss, cached
