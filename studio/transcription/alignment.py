"""Tokens to columns: the monotonic path of dynamic time warping through an attention."""

import numpy as np
from numpy.typing import NDArray


def row_starts(cost: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each row the first column that the cheapest monotonic path gives it.

    Dynamic time warping an anti-diagonal at a time: all cells of one depend only on the two before it.
    """
    rows, columns = cost.shape
    total = np.full((rows + 1, columns + 1), np.inf)
    total[0, 0] = 0.0
    step = np.zeros((rows + 1, columns + 1), dtype=np.int8)
    for diagonal in range(2, rows + columns + 1):
        i = np.arange(max(1, diagonal - columns), min(rows, diagonal - 1) + 1)
        j = diagonal - i
        ways = np.stack([total[i - 1, j - 1], total[i - 1, j], total[i, j - 1]])
        best = ways.argmin(axis=0)
        step[i, j] = best
        total[i, j] = cost[i - 1, j - 1] + ways[best, np.arange(len(i))]
    starts = np.zeros(rows)
    row, column = rows, columns
    while row > 0 and column > 0:
        starts[row - 1] = column - 1
        move = step[row, column]
        row -= int(move in (0, 1))
        column -= int(move in (0, 2))
    return starts
