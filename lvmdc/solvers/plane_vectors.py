"""Where the vectors of planes are kept: with the candidates, or in a table within the memory budget."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from lvmdc.mapped import is_mapped, take
from lvmdc.memory import memory_budget
from lvmdc.solvers.hinge import StructuredHinge

NUMPY = (torch.float16, torch.float32, torch.float64)  # precisions in which the compiled loops read vectors
NONE = -1


class PlaneVectors:
    """The vectors Ψ of planes as rows of `data`, float16 as its bits, which the compiled loops widen.

    Candidates that are in memory are the table themselves. Of a file, of another device or of a joint map of one's own, only what planes
    need is copied, each candidate once and in its own precision, into a table that is reserved as a whole: pages that nobody wrote to
    take no memory.

    >>> from lvmdc import Candidates
    >>> from lvmdc.joint import ClassBlocks
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), C=1.0)
    >>> vectors = PlaneVectors(hinge)
    >>> vectors.shared, vectors.data[1]
    (True, array([0., 1.], dtype=float32))
    """

    def __init__(self, hinge: StructuredHinge):
        self.hinge = hinge
        candidates = hinge.candidates
        empty, _ = hinge.joint.vectors(candidates, hinge.y[:0], hinge.y[:0])
        self.length, self.n_blocks = empty.shape[1], hinge.size // max(1, empty.shape[1])
        self.dtype = empty.cpu().numpy().dtype  # that sums are taken in
        self._stored = hinge.joint.stored_vectors(candidates)
        stored = self._stored
        self.shared = stored is not None and stored.device.type == "cpu" and stored.dtype in NUMPY and not is_mapped(stored)
        if self.shared:
            assert stored is not None
            self.data, self.capacity, self._free = bits(stored.detach().numpy()), 0, np.arange(0)
        else:
            held = stored is not None and stored.dtype in NUMPY and bits(stored[:0].detach().cpu().numpy()).dtype
            self._reserve(held or self.dtype)

    def _reserve(self, dtype: np.dtype) -> None:
        """An empty table, as large as the budget allows and as there can be need for."""
        budget = memory_budget(torch.device("cpu"), self.hinge.limit)
        self.capacity = max(1, budget // max(1, self.length * dtype.itemsize))
        self._slot_of = np.zeros(0, np.int64)
        if self._stored is not None:  # each candidate once, and a mixture a sample
            self.capacity = min(self.capacity, len(self._stored) + len(self.hinge.y))
            self._slot_of = np.full(len(self._stored), NONE)
        else:  # each candidate once a class; what is reserved beyond that would be written to by the lists of places below
            self.capacity = min(self.capacity, self.hinge.candidates.n_candidates * self.hinge.n_classes + len(self.hinge.y))
        self.data = np.empty((self.capacity, self.length), dtype)
        self._row_at = np.full(self.capacity, NONE)
        self._free = np.arange(self.capacity)

    def own_table(self) -> None:
        """From now on, what is no candidate's vector can be kept too; what planes have to be placed anew."""
        self.shared = False
        self._reserve(self.dtype)

    # ---- room ----------------------------------------------------------------------------------------------------

    def lacking(self, rows: np.ndarray) -> int:
        """How many vectors planes at packed rows would add."""
        if self.shared:
            return 0
        return len(rows) if self._stored is None else len(np.unique(rows[self._slot_of[rows] == NONE]))

    def room(self, in_use: Callable[[], np.ndarray], wanted: int) -> int:
        """How many vectors there is room for; those that no plane needs any more are forgotten if `wanted` asks for it."""
        if len(self._free) < wanted:
            unused = np.ones(self.capacity, bool)
            unused[in_use()] = False
            gone = self._row_at[unused]
            if len(self._slot_of):
                self._slot_of[gone[gone != NONE]] = NONE
            self._row_at[unused] = NONE
            self._free = np.flatnonzero(unused)
        return len(self._free)

    def message(self, wanted: int) -> str:
        """Why there is no room."""
        per = self.length * self.data.itemsize
        return (
            f"memory_budget holds {self.capacity} vectors of planes of {per} bytes, but {wanted} more are needed:"
            f" give more than {self.capacity * per} bytes"
        )

    # ---- keeping -------------------------------------------------------------------------------------------------

    def place(self, rows: np.ndarray, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(m,), (m,): where the vectors of planes (class, packed row) are, after room was made for them, and their blocks of w."""
        if self.shared:
            return rows, classes
        if self._stored is None:
            chosen = torch.from_numpy(classes).to(self.hinge.y), torch.from_numpy(rows).to(self.hinge.y)
            vectors, blocks = self.hinge.joint.vectors(self.hinge.candidates, *chosen)
            return self.keep(vectors), blocks.cpu().numpy()
        new = np.unique(rows[self._slot_of[rows] == NONE])
        for start in range(0, len(new), 1 << 13):
            some = new[start : start + (1 << 13)]
            self._slot_of[some] = slots = self.keep(take(self._stored, torch.from_numpy(some).to(self._stored.device)))
            self._row_at[slots] = some
        return self._slot_of[rows], classes

    def keep(self, vectors: Tensor) -> np.ndarray:
        """Copy vectors (m, d') to free places (m,)."""
        slots, self._free = self._free[: len(vectors)], self._free[len(vectors) :]
        half = vectors.dtype == torch.float16 and self.data.dtype == np.uint16
        self.data[slots] = bits((vectors if half else vectors.to(torch.from_numpy(self.data[:0]).dtype)).detach().cpu().numpy())
        return slots


def bits(vectors: np.ndarray) -> np.ndarray:
    """Float16 as unsigned integers of as many bits, which compiled loops can read; others as they are.

    >>> bits(np.ones(1, np.float16))
    array([15360], dtype=uint16)
    """
    return vectors.view(np.uint16) if vectors.dtype == np.float16 else vectors
