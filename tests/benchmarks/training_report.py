"""What the training benchmark found, as lines for people and as tables in Markdown."""

import os
import platform
from collections.abc import Sequence
from typing import Any

import numpy as np

from studio.evaluation.metrics import error_rates, paired_bootstrap, utterance_errors
from studio.memory.trace.store import library_versions

Row = dict[str, Any]
NAMES = {
    "plain": "`Seq2SeqTrainer` and PEFT as the guides write it",
    "padded": "ours, every batch padded to 30 s",
    "mix": "ours, short audio, one batch in ten padded",
    "rehearsed": "ours, short audio, a window rehearsed beside every other batch (the default)",
    "short": "ours, short audio only",
}
DATA = {
    "aishell": "whisper-tiny, 300 clips of AISHELL-1 (4.7 s in the mean, two speakers), 100 test clips",
    "demo": "the demo model and its speech",
    "long": "whisper-tiny, clips of AISHELL-1 joined to 28 to 30 s",
}
_RESAMPLES = 10_000


def summary(rows: Sequence[Row], everything: Sequence[Row]) -> str:
    """A line a row: each recipe beside the plain one of its data, seed and length."""
    return "\n".join(_line(row, _plain(row, everything)) for row in rows)


def _plain(row: Row, everything: Sequence[Row]) -> Row | None:
    same = ("data", "seed", "steps")
    beside = (other for other in everything if other["recipe"] == "plain")
    return next((other for other in beside if all(other[key] == row[key] for key in same)), None)


def _line(row: Row, base: Row | None) -> str:
    text = f"{row['data']} {row['recipe']} seed {row['seed']} steps {row['steps'] or 'all'}: "
    text += f"{row['cpu_seconds']:.1f} s of the processor"
    if row["clips"]:
        text += f", {row['clips'] / row['cpu_seconds']:.2f} clips a second"
    text += f", {row['kept_bytes'] / 2**20:.0f} MiB kept"
    if base and base is not row:
        text += f" ({base['cpu_seconds'] / row['cpu_seconds']:.1f} × as fast as plain, "
        text += f"{row['kept_bytes'] / base['kept_bytes']:.0%} of what it keeps)"
    if row["texts"]:
        references, hypotheses = zip(*row["texts"], strict=True)
        rates = error_rates(references, hypotheses)
        text += f"; WER {rates.wer:.1%}, CER {rates.cer:.1%}"
        if base and base is not row and base["texts"]:
            other = [hypothesis for _, hypothesis in base["texts"]]
            found = paired_bootstrap(references, other, hypotheses, "cer")
            text += f", CER {100 * found.difference:+.1f} points against plain "
            text += f"(95 %: {100 * found.ci_low:+.1f} to {100 * found.ci_high:+.1f})"
    return text


def report(rows: Sequence[Row]) -> str:
    """Tables of all that was measured, seeds together; the machine is named."""
    versions = ", ".join(f"{name} {version}" for name, version in library_versions().items())
    parts = [
        "# Training, beside the plain recipe\n",
        "Made by `python -m tests.benchmarks.training` (options: see the file), one thread; clips a second "
        f"of the processor. {platform.machine()}, {platform.system()}, {os.cpu_count()} CPU cores, Python "
        f"{platform.python_version()}, {versions}. Kept: the most bytes that a forward pass leaves for its "
        "backward pass, without the weights. The difference in CER and its 95 % interval: paired bootstrap "
        "over utterances, the errors of an utterance summed over the seeds.\n",
    ]
    for data, what in DATA.items():
        for steps in sorted({row["steps"] for row in rows if row["data"] == data}):
            those = [row for row in rows if row["data"] == data and row["steps"] == steps]
            parts.append(f"## {what[0].upper()}{what[1:]}{f', {steps} steps' if steps else ''}\n")
            parts.append(table(those) + "\n")
    return "\n".join(parts)


def table(rows: Sequence[Row]) -> str:
    """The recipes of one data set and length; mean, and in brackets from the least to the greatest."""
    lines = [
        "| recipe | seeds | clips a second | times plain | kept | of plain's | CER, raw | against plain |",
        "|---|---|---|---|---|---|---|---|",
    ]
    plain = {row["seed"]: row for row in rows if row["recipe"] == "plain"}
    for recipe, name in NAMES.items():
        those = [row for row in rows if row["recipe"] == recipe and row["seed"] in plain]
        if not those:
            continue
        times = [plain[row["seed"]]["cpu_seconds"] / row["cpu_seconds"] for row in those]
        kept = max(row["kept_bytes"] for row in those)
        share = max(row["kept_bytes"] / plain[row["seed"]]["kept_bytes"] for row in those)
        speed = _spread([row["clips"] / row["cpu_seconds"] for row in those], "{:.2f}")
        cells = [name, str(len(those)), speed, _spread(times, "{:.1f} ×"), f"{kept / 2**20:.0f} MiB"]
        cells += [f"{share:.0%}", _errors(those), _against(those, plain) if recipe != "plain" else ""]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _spread(values: Sequence[float], form: str) -> str:
    mean = form.format(sum(values) / len(values))
    if len(values) == 1:
        return mean
    return f"{mean} ({form.format(min(values))} to {form.format(max(values))})"


def _errors(rows: Sequence[Row]) -> str:
    if not all(row["texts"] for row in rows):
        return ""
    return _spread([100 * error_rates(*zip(*row["texts"], strict=True)).cer for row in rows], "{:.1f} %")


def _against(rows: Sequence[Row], plain: dict[int, Row]) -> str:
    """Points of CER, and its interval: utterances are drawn, each with its errors under all seeds."""
    if not all(row["texts"] for row in rows):
        return ""
    more, length = (np.zeros(len(rows[0]["texts"])) for _ in range(2))
    for row in rows:
        for at, (ours, theirs) in enumerate(zip(row["texts"], plain[row["seed"]]["texts"], strict=True)):
            errors, characters = utterance_errors(*ours, "cer")
            more[at] += errors - utterance_errors(*theirs, "cer")[0]
            length[at] += characters
    drawn = np.random.default_rng(0).integers(len(more), size=(_RESAMPLES, len(more)))
    low, high = np.quantile(more[drawn].sum(axis=1) / length[drawn].sum(axis=1), [0.025, 0.975])
    return f"{100 * more.sum() / length.sum():+.1f} points ({100 * low:+.1f} to {100 * high:+.1f})"
