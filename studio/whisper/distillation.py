"""How far a student's hidden states are from its teacher's, in the words that they make likely."""

from typing import Any

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


def distillation_loss(
    states: torch.Tensor,
    taught: torch.Tensor,
    weight: torch.Tensor,
    is_known: torch.Tensor,
    chunk_size: int,
) -> torch.Tensor:
    """How far a student is from its teacher, a mean over tokens: see `DIVERGENCE_WEIGHT`.

    Kullback-Leibler divergence of the words' probabilities (Hinton et al. 2015, arXiv:1503.02531), and the
    squared distance of the hidden states in units of the teacher's variance.

    Args:
        states: of the student, (clips, tokens, d_model).
        taught: of the teacher, the same shape.
        weight: (vocabulary, d_model).
        is_known: (clips, tokens), False where a label is only padding.
        chunk_size: tokens whose probabilities exist at once; 0: all.
    """
    student, teacher = states[is_known], taught[is_known].to(states.dtype)
    distance = functional.mse_loss(student.float(), teacher.float()) / teacher.float().var()
    size = chunk_size or len(student)
    divergence: Any = 0.0
    for first in range(0, len(student), size):
        part = slice(first, first + size)
        divergence = divergence + checkpoint(
            _divergence, student[part], teacher[part], weight, use_reentrant=False
        )
    loss: torch.Tensor = STATES_WEIGHT * distance + DIVERGENCE_WEIGHT * divergence / len(student)
    return loss


STATES_WEIGHT = 1.0
DIVERGENCE_WEIGHT = 1.0


def _divergence(student: torch.Tensor, teacher: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Summed over tokens, in float32."""
    weight = weight.detach().to(student.dtype)
    with torch.no_grad():
        wanted = functional.log_softmax((teacher @ weight.T).float(), dim=-1)
    given = functional.log_softmax((student @ weight.T).float(), dim=-1)
    return functional.kl_div(given, wanted, reduction="sum", log_target=True)
