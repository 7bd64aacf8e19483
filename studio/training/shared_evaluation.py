"""An evaluation by several processes: each takes a share of the clips, and what all found is put together."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from torch.utils.data import DataLoader

from studio.evaluation.metrics import error_rates
from studio.training.collator import ClipDataset
from studio.training.world import World


@dataclass(frozen=True)
class Share:
    """What came of a batch: reference and hypothesis of each clip, and the loss over its tokens."""

    rows: list[tuple[str, str]]
    loss_sum: float
    tokens: int


def share_of(clips: Any, world: World, arguments: Any, collator: Any) -> DataLoader[Any]:
    """Batches of every `size`-th clip, so that each clip is in exactly one share."""
    return DataLoader(
        ClipDataset(clips[world.rank :: world.size]),
        batch_size=arguments.eval_batch_size,
        collate_fn=collator,
        num_workers=arguments.dataloader_num_workers,
        pin_memory=arguments.dataloader_pin_memory,
    )


def gathered(shares: Sequence[Share], world: World) -> tuple[list[tuple[str, str]], dict[str, float]]:
    """Reference and hypothesis of every clip in the order of the data, and the metrics of all together."""
    own = {
        "rows": [row for share in shares for row in share.rows],
        "loss_sum": sum(share.loss_sum for share in shares),
        "tokens": sum(share.tokens for share in shares),
    }
    all_shares = world.gather(own)
    in_order = zip_longest(*(share["rows"] for share in all_shares))
    texts = [(row[0], row[1]) for group in in_order for row in group if row is not None]
    rates = error_rates([text for text, _ in texts], [text for _, text in texts])
    loss = sum(share["loss_sum"] for share in all_shares) / sum(share["tokens"] for share in all_shares)
    return texts, {"eval_wer": rates.wer, "eval_cer": rates.cer, "eval_loss": loss}
