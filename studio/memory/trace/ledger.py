"""The books of a trace: which bytes are alive, what for, and when there were most of them. No torch here."""

from dataclasses import dataclass
from itertools import pairwise

from studio.memory.plan import Part, Phase

PARTS: tuple[Part, ...] = tuple(part for part in Part if part is not Part.OVERHEAD)
"""Order of the sizes in a sample."""
_TIMELINE_POINTS = 300
_FEWEST_POINTS_OF_A_PHASE = 6


@dataclass(frozen=True)
class Sample:
    """The live bytes after one operation, a number each of `PARTS`."""

    phase: Phase
    sizes: tuple[int, ...]

    @property
    def total(self) -> int:
        """All of them together."""
        return sum(self.sizes)


class Ledger:
    """Counts allocations and releases; sizes are in bytes and already rounded as the allocator does."""

    def __init__(self) -> None:
        self.phase = Phase.FORWARD
        self.events: list[tuple[int, int]] = []
        """Block and size, negative where it is released: what the allocator is asked, in order."""
        self._samples: list[Sample] = []
        self._sizes = dict.fromkeys(PARTS, 0)
        self._blocks: dict[int, tuple[int, Part]] = {}
        self._next = 0

    def allocate(self, size: int, part: Part) -> int:
        """Books a block and gives back its number."""
        self._next += 1
        self._blocks[self._next] = (size, part)
        self._sizes[part] += size
        self.events.append((self._next, size))
        return self._next

    def release(self, block: int) -> None:
        """A block is free again."""
        size, part = self._blocks.pop(block)
        self._sizes[part] -= size
        self.events.append((block, -size))

    def move(self, block: int, part: Part) -> None:
        """A block turns out to be for something else."""
        size, before = self._blocks[block]
        self._sizes[before] -= size
        self._sizes[part] += size
        self._blocks[block] = (size, part)

    def part_of(self, block: int) -> Part:
        """What a live block is for."""
        return self._blocks[block][1]

    def observe(self, workspace_bytes: int = 0) -> None:
        """Takes a sample; `workspace_bytes` live only inside the operation that just ran."""
        if workspace_bytes:
            block = self.allocate(workspace_bytes, Part.TEMPORARIES)
            self._samples.append(Sample(self.phase, tuple(self._sizes.values())))
            self.release(block)
        else:
            self._samples.append(Sample(self.phase, tuple(self._sizes.values())))

    def forget_out_of_place(self, mark: int, kept: int, made: int) -> None:
        """Turns a sum written to a new block into one written in place.

        From event `mark` on, block `made` was allocated for the sum and the operand `kept` released: the
        engine would have added into `kept`, which from now on stands for both.
        """
        tail = [event for event in self.events[mark:] if event[0] not in (kept, made)]
        self.events[mark:] = tail
        self._blocks[kept] = self._blocks.pop(made)

    @property
    def peak(self) -> Sample:
        """The highest sample."""
        return max(self._samples, key=lambda sample: sample.total)

    def phase_peaks(self) -> dict[Phase, int]:
        """Highest total of each phase, in bytes."""
        peaks: dict[Phase, int] = {}
        for sample in self._samples:
            peaks[sample.phase] = max(peaks.get(sample.phase, 0), sample.total)
        return peaks

    def timeline(self) -> tuple[Sample, ...]:
        """A few hundred samples in order: of each stretch the highest, so that no peak is lost."""
        points: list[Sample] = []
        for stretch in _stretches(self._samples):
            share = round(_TIMELINE_POINTS * len(stretch) / len(self._samples))
            count = min(len(stretch), max(_FEWEST_POINTS_OF_A_PHASE, share))
            borders = [round(index * len(stretch) / count) for index in range(count + 1)]
            for start, end in pairwise(borders):
                points.append(max(stretch[start:end], key=lambda sample: sample.total))
        return tuple(points)


def _stretches(samples: list[Sample]) -> list[list[Sample]]:
    """Runs of samples of one phase."""
    runs: list[list[Sample]] = []
    for sample in samples:
        if not runs or runs[-1][0].phase is not sample.phase:
            runs.append([])
        runs[-1].append(sample)
    return runs
