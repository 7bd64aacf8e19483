"""A tape of one layer: what its forward pass keeps, and what its backward pass has alive at its worst moment.

Autograd in miniature, without numbers and without torch: tensors that only know their size, operations that
say what they keep and which gradients they make. The rules are those of PyTorch's engine: a node makes all
its gradients while its input gradient and what it kept are alive, then lets go of them; a gradient is added
in place if nobody else holds the buffer and it is no view (`engine.cpp` and `input_buffer.cpp` in
`torch/csrc/autograd`).
"""

from dataclasses import dataclass


class Tensor:
    """A storage of `numbers` × `width` bytes, and a place in the graph."""

    __slots__ = ("grad", "is_cast", "is_view", "is_weight", "needs", "numbers", "owners", "width")

    def __init__(self, numbers: float, width: int, needs: bool, *, is_weight: bool = False) -> None:
        self.numbers = numbers
        self.width = width
        self.needs = needs
        """Whether the backward pass has to reach it."""
        self.is_weight = is_weight
        self.is_cast = self.is_view = False
        self.owners = 1
        """Who holds the storage: the program, the graph, a cache."""
        self.grad: Tensor | None = None


@dataclass(slots=True)
class _Node:
    output: Tensor
    kept: tuple[Tensor, ...]
    to: tuple[tuple[Tensor, int], ...]
    """Inputs that get a gradient, and the width of the new one; 0 passes the same gradient on."""
    workspace: float
    makes_views: bool
    """Whether the gradients are views: of a product of matrices, seen as a batch of sequences."""
    hands_on: bool = False
    """Whether what was kept becomes the gradients, rather than being let go beside new ones."""


@dataclass(frozen=True)
class Moment:
    """Bytes alive, and what of them are casted weights and gradients of weights."""

    live: float
    casts: float
    gradients: float


ZERO = Moment(0.0, 0.0, 0.0)


class Tape:
    """Records a forward pass and plays it backward."""

    def __init__(self) -> None:
        self.live = self.casts = self.gradients = 0.0
        self.peak = ZERO
        self.pinned: list[Tensor] = []
        """Held until the whole graph is gone."""
        self.cache: dict[int, Tensor] = {}
        """Casted weights by weight, which autocast holds until the end of its region."""
        self._nodes: list[_Node] = []

    def now(self) -> Moment:
        """The bytes at this moment."""
        return Moment(self.live, self.casts, self.gradients)

    def new(self, numbers: float, width: int, needs: bool = False) -> Tensor:
        """A new storage, held by the program."""
        tensor = Tensor(numbers, width, needs)
        self.live += numbers * width
        if self.live > self.peak.live:
            self.peak = Moment(self.live, self.casts, self.gradients)
        return tensor

    def new_cast(self, numbers: float, width: int, needs: bool) -> Tensor:
        """A copy of a weight in another type."""
        tensor = self.new(numbers, width, needs)
        tensor.is_cast = True
        self.casts += numbers * width
        return tensor

    def touch(self, extra: float) -> None:
        """Bytes that live for a moment only."""
        if self.live + extra > self.peak.live:
            self.peak = Moment(self.live + extra, self.casts, self.gradients)

    def drop(self, *tensors: Tensor) -> None:
        """One owner less of each."""
        for tensor in tensors:
            tensor.owners -= 1
            if tensor.owners == 0 and not tensor.is_weight:
                size = tensor.numbers * tensor.width
                self.live -= size
                if tensor.is_cast:
                    self.casts -= size

    def record(
        self,
        output: Tensor,
        kept: tuple[Tensor, ...],
        to: tuple[tuple[Tensor, int], ...],
        workspace: float = 0.0,
        makes_views: bool = False,
        hands_on: bool = False,
    ) -> Tensor:
        """Notes an operation if the backward pass reaches it; gives back its output."""
        to = tuple((tensor, width) for tensor, width in to if tensor.needs)
        if to:
            output.needs = True
            for tensor in kept:
                tensor.owners += 1
            self._nodes.append(_Node(output, kept, to, workspace, makes_views, hands_on))
        return output

    def record_in_place(self, total: Tensor, part: Tensor, *, is_view: bool) -> Tensor:
        """`part` is added into `total`: another place in the graph for the same storage.

        Into a view, autograd copies the gradient of the whole and clones that of the view (`CopySlices`).
        """
        out = Tensor(total.numbers, total.width, needs=False)
        self.live += out.numbers * out.width
        if not is_view:
            return self.record(out, (), ((total, 0), (part, part.width if part.width != out.width else 0)))
        size = total.numbers * total.width
        return self.record(out, (), ((total, total.width), (part, part.width)), workspace=size)

    def backward(self, output: Tensor, gradient: Tensor) -> None:
        """Plays everything recorded, from the last to the first; the tape is empty then."""
        output.grad = gradient
        while self._nodes:
            self._play(self._nodes.pop())

    def _play(self, node: _Node) -> None:
        gradient = node.output.grad
        node.output.grad = None
        made: list[tuple[Tensor, Tensor]] = []
        for tensor in node.kept if node.hands_on else ():
            self.drop(tensor)
        if gradient is not None:
            for tensor, width in node.to:
                if width:
                    new = self.new(tensor.numbers, width)
                    new.is_view = node.makes_views
                    made.append((tensor, new))
                else:
                    gradient.owners += 1
                    made.append((tensor, gradient))
            if node.workspace:
                self.touch(node.workspace)
        for tensor in () if node.hands_on else node.kept:
            self.drop(tensor)
        if gradient is not None:
            self.drop(gradient)
        for tensor, part in made:
            self._accumulate(tensor, part)

    def _accumulate(self, tensor: Tensor, part: Tensor) -> None:
        if tensor.grad is None:
            tensor.grad = part
            if tensor.is_weight:
                self.gradients += part.numbers * part.width
        elif tensor.is_weight or (tensor.grad.owners == 1 and not tensor.grad.is_view):
            self.drop(part)
        else:
            total = self.new(part.numbers, part.width)
            self.drop(tensor.grad)
            self.drop(part)
            tensor.grad = total
