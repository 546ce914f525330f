"""The planes of every sample with their dual weights, and where their vectors are kept."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from lvmdc import distributed
from lvmdc.solvers.n_slack import kernels
from lvmdc.solvers.w_block import ImputedLatents, StructuredHinge
from lvmdc.storage.mapped import is_mapped, memory_budget, take

NUMPY = (torch.float32, torch.float64)  # precisions in which the compiled loops read vectors
NONE = -1
ROWS = 1 << 13  # vectors that are copied at a time, so that the copy in between stays small
ROOM = 16  # columns of the tables at first: most samples never have more planes
COLUMNS = {"vec": np.int64, "blk": np.int64, "row": np.int64, "cls": np.int64, "loss": np.float64, "alpha": np.float64, "idle": np.int64}
MIXTURE = -1  # the `row` of a plane that is a mixture of candidates, which only a start has


class PlaneVectors:
    """The vectors Ψ of planes as rows of `data`.

    Candidates that are in memory are the table themselves. From a file, another device, half precision or a custom joint map, only what
    planes need is copied, each candidate once, into a table that is reserved as a whole: pages without data take no memory.
    A custom map may have more (y, h) than there are candidates, as that of chains has: then the table grows.
    """

    def __init__(self, hinge: StructuredHinge):
        self.hinge = hinge
        candidates = hinge.candidates
        empty, _ = hinge.joint.vectors(candidates, hinge.y[:0], hinge.y[:0])
        self.length, self.n_blocks = empty.shape[1], hinge.size // max(1, empty.shape[1])
        self.dtype = torch.empty(0, dtype=empty.dtype).numpy().dtype  # that sums are taken in
        self._stored = hinge.joint.stored_vectors(candidates)
        stored = self._stored
        self.shared = stored is not None and stored.device.type == "cpu" and stored.dtype in NUMPY and not is_mapped(stored)
        if self.shared:
            assert stored is not None
            self.data, self.capacity, self._free = stored.detach().numpy(), 0, np.arange(0)
        else:
            held = None if stored is None else torch.empty(0, dtype=torch.promote_types(stored.dtype, torch.float32)).numpy().dtype
            self._reserve(held or self.dtype)

    def _reserve(self, dtype: np.dtype) -> None:
        """An empty table, as large as the budget allows and as can be needed."""
        budget = memory_budget(torch.device("cpu"), self.hinge.limit)
        self._most = max(1, budget // max(1, self.length * dtype.itemsize))
        self._slot_of = np.zeros(0, np.int64)
        if self._stored is not None:  # each candidate once, and a mixture per sample
            self._most = min(self._most, len(self._stored) + len(self.hinge.y))
            self._slot_of = np.full(len(self._stored), NONE)
        # Each candidate once per class, at first; the lists below are written to in full, so that no more is reserved.
        self.capacity = min(self._most, self.hinge.candidates.n_candidates * self.hinge.n_classes + len(self.hinge.y))
        self.data = np.empty((self.capacity, self.length), dtype)
        self._row_at = np.full(self.capacity, NONE)
        self._free = np.arange(self.capacity)

    def own_table(self) -> None:
        """From now on, vectors of mixtures can be kept too; planes that were placed before must be placed again."""
        self.shared = False
        self._reserve(self.dtype)

    def lacking(self, rows: np.ndarray) -> int:
        """How many vectors planes at packed rows would add."""
        if self.shared:
            return 0
        return len(rows) if self._stored is None else len(np.unique(rows[self._slot_of[rows] == NONE]))

    def room(self, in_use: Callable[[], np.ndarray], wanted: int) -> int:
        """How many vectors there is room for; those that no plane needs any more are dropped if `wanted` are not free."""
        if len(self._free) < wanted:
            unused = np.ones(self.capacity, bool)
            unused[in_use()] = False
            gone = self._row_at[unused]
            if len(self._slot_of):
                self._slot_of[gone[gone != NONE]] = NONE
            self._row_at[unused] = NONE
            self._free = np.flatnonzero(unused)
            if len(self._free) < wanted:
                self._grow(wanted - len(self._free))
        return len(self._free)

    def _grow(self, more: int) -> None:
        """Room for `more` vectors, and at least twice as many as before, but no more than the budget allows."""
        capacity = min(self._most, max(2 * self.capacity, self.capacity + more))
        data = np.empty((capacity, self.length), self.data.dtype)
        data[: self.capacity] = self.data
        self._row_at = np.append(self._row_at, np.full(capacity - self.capacity, NONE))
        self._free = np.append(self._free, np.arange(self.capacity, capacity))
        self.data, self.capacity = data, capacity

    def message(self, wanted: int) -> str:
        """Why there is no room."""
        per = self.length * self.data.itemsize
        return (
            f"memory_budget holds {self.capacity} vectors of planes of {per} bytes, but {wanted} more are needed:"
            f" give more than {self.capacity * per} bytes"
        )

    def place(self, rows: np.ndarray, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(m,), (m,): where the vectors of planes (class, packed row) are, for which there is room, and their blocks of w."""
        if self.shared:
            return rows, classes
        if self._stored is None:
            chosen = torch.from_numpy(classes).to(self.hinge.y), torch.from_numpy(rows).to(self.hinge.y)
            vectors, blocks = self.hinge.joint.vectors(self.hinge.candidates, *chosen)
            return self.keep(vectors), blocks.cpu().numpy()
        new = np.unique(rows[self._slot_of[rows] == NONE])
        for start in range(0, len(new), ROWS):
            some = new[start : start + ROWS]
            self._slot_of[some] = slots = self.keep(take(self._stored, torch.from_numpy(some).to(self._stored.device)))
            self._row_at[slots] = some
        return self._slot_of[rows], classes

    def keep(self, vectors: Tensor) -> np.ndarray:
        """Copy vectors (m, d') to free places (m,)."""
        slots, self._free = self._free[: len(vectors)], self._free[len(vectors) :]
        self.data[slots] = vectors.to(torch.from_numpy(self.data[:0]).dtype).detach().cpu().numpy()
        return slots


class Planes:
    """Tables (n, M) of planes, each a (y, h) of its sample: where its Ψ is, its loss and its dual weight α; on the CPU."""

    vec: np.ndarray
    blk: np.ndarray
    row: np.ndarray
    cls: np.ndarray
    loss: np.ndarray
    alpha: np.ndarray
    idle: np.ndarray

    def __init__(self, hinge: StructuredHinge):
        self.hinge = hinge
        n = len(hinge.candidates)
        self.store = PlaneVectors(hinge)
        self.n_blocks = self.store.n_blocks
        self.count = np.zeros(n, np.int64)
        for name, dtype in COLUMNS.items():
            setattr(self, name, np.zeros((n, ROOM), dtype))
        self.gram = np.zeros((n, ROOM, ROOM), self.store.dtype)

    @property
    def vectors(self) -> np.ndarray:
        """The table that `vec` points into."""
        return self.store.data

    @property
    def used(self) -> np.ndarray:
        """(n, M) which entries of the tables are planes."""
        return np.arange(self.gram.shape[1]) < self.count[:, None]

    def tables(self, w: np.ndarray, total: np.ndarray) -> kernels.Tables:
        """What the compiled loops work on, with w (blocks, d') and what the weights of each sample sum to (n,)."""
        return kernels.Tables(self.vectors, w, self.vec, self.blk, self.loss, self.alpha, self.count, self.gram, total)

    # ---- adding and dropping -------------------------------------------------------------------------------------

    def add(self, samples: np.ndarray, rows: np.ndarray, classes: np.ndarray) -> None:
        """Add planes (class, packed row), all different and not there yet, without weight."""
        if len(samples) == 0:
            return
        if not self._make_room(rows):
            raise ValueError(self.store.message(self.store.lacking(rows)))
        slots, blocks = self.store.place(rows, classes)
        self._place(samples, rows, classes, slots, blocks)

    def add_fitting(self, samples: np.ndarray, rows: np.ndarray, classes: np.ndarray) -> None:
        """`add` as many as there is room for: of each sample's new planes, the first ones first."""
        if len(samples) and not self._make_room(rows):
            rank, room = _rank(samples), self._room(len(rows))
            least = next((k for k in range(int(rank.max()), 0, -1) if self.store.lacking(rows[rank < k]) <= room), 0)
            kept = np.flatnonzero(rank < max(least, 1))
            kept = kept if least else kept[:room]  # the others follow in a later pass
            if len(kept) == 0:
                raise ValueError(self.store.message(1))
            samples, rows, classes = samples[kept], rows[kept], classes[kept]
        self.add(samples, rows, classes)

    def _make_room(self, rows: np.ndarray) -> bool:
        """Whether the vectors of planes at packed rows fit, if necessary after those without weight were dropped."""
        for again in (False, True):
            if again:
                self.drop_idle(1)
            self._room(self.store.lacking(rows))  # which may drop some of those that are there
            if self.store.lacking(rows) <= self._room(0):
                return True
        return False

    def _room(self, wanted: int) -> int:
        return self.store.room(lambda: self.vec[self.used], wanted)

    def add_mixture(self, samples: np.ndarray, latents: ImputedLatents) -> None:
        """h* of each sample as its first plane, where it is a mixture of candidates: a lower bound as its parts are."""
        vectors, blocks = (t.cpu() for t in latents.vectors())
        self.store.own_table()  # mixtures are not among the rows, nor exact in half precision
        if self._room(len(samples)) < len(samples):
            raise ValueError(self.store.message(len(samples)))
        slots = self.store.keep(vectors[torch.from_numpy(samples)])
        self._place(samples, np.full(len(samples), MIXTURE), self.hinge.y_on_host[samples], slots, blocks.numpy()[samples])

    def _place(self, samples: np.ndarray, rows: np.ndarray, classes: np.ndarray, slots: np.ndarray, blocks: np.ndarray) -> None:
        places = self.count[samples] + _rank(samples)
        self._reserve(int(places.max()) + 1)
        np.add.at(self.count, samples, 1)
        new = {"vec": slots, "blk": blocks, "row": rows, "cls": classes, "loss": 0.0, "alpha": 0.0, "idle": 0}
        for name, values in new.items():
            getattr(self, name)[samples, places] = values
        kernels.fill_gram(samples, places, self.vectors, self.vec, self.blk, self.count, self.gram)

    def _reserve(self, room: int) -> None:
        """Make the tables wide enough, by half their width at least, so that this is rarely done."""
        if room > self.gram.shape[1]:
            more = max(room, 3 * self.gram.shape[1] // 2) - self.gram.shape[1]
            for name in COLUMNS:
                setattr(self, name, np.pad(getattr(self, name), ((0, 0), (0, more))))
            self.gram = np.pad(self.gram, ((0, 0), (0, more), (0, more)))

    def drop_idle(self, patience: int) -> None:
        """Drop planes that have had no weight for `patience` calls of this, if their sample has others with weight."""
        whole = self.idle, self.vec, self.blk, self.row, self.cls
        kernels.drop_idle(whole, (self.alpha, self.loss), self.count, self.gram, patience)

    # ---- weights -------------------------------------------------------------------------------------------------

    def find(self, rows: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """(n,) the place of each sample's plane (class, row), −1 where it has none."""
        match = (self.row == rows[:, None]) & (self.cls == classes[:, None]) & self.used
        return np.where(match.any(axis=1), match.argmax(axis=1), -1)

    def move(self, old: np.ndarray, new: np.ndarray) -> None:
        """The weight of each sample's plane (y_i, old) goes to its plane (y_i, new), which is added where there is none."""
        y = self.hinge.y_on_host
        moved = np.flatnonzero(old != new)
        place = self.find(old, y)
        moved = moved[place[moved] >= 0]
        moved = moved[self.alpha[moved, place[moved]] > 0]
        absent = moved[self.find(new, y)[moved] < 0]
        self.add(absent, new[absent], y[absent])
        place, to = self.find(old, y), self.find(new, y)  # again: to make room, planes without weight may have gone
        self.alpha[moved, to[moved]] += self.alpha[moved, place[moved]]
        self.alpha[moved, place[moved]] = 0.0

    def rescale(self, total: np.ndarray) -> None:
        """Make the weights of each sample sum to total (n,), in the proportions that they have; all on the first plane if they are zero."""
        self.alpha[~self.used] = 0.0
        have = self.alpha.sum(axis=1)
        self.alpha[have <= 0, 0] = total[have <= 0]
        off = (have > 0) & (np.abs(have - total) > 1e-12 * total)  # not rounding alone, so that to do it twice is to do it once
        self.alpha[off] *= (total[off] / have[off])[:, None]

    def w(self, latents: ImputedLatents, total: np.ndarray) -> np.ndarray:
        """(D,) in float64: Σ_i (total_i Ψ(x_i, y_i, h*_i) − Σ_p α_ip Ψ_ip)."""
        shape, c = (self.n_blocks, self.store.length), self.hinge.candidates
        if latents.rows is None or not self.store.shared:  # the mean is that of all ranks, of which the first one adds it
            out = (self.hinge.C * (distributed.first_row(c) == 0)) * latents.mean_on_host.reshape(shape)
        else:  # the same sum, without a copy of the rows in float64
            out, column = np.zeros(shape), np.s_[:, None]
            rows, y = latents.rows_on_host, self.hinge.y_on_host
            assert rows is not None
            kernels.subtract_sum(self.vectors, rows[column], y[column], -total[column], np.ones_like(rows), out)
        kernels.subtract_sum(self.vectors, self.vec, self.blk, self.alpha, self.count, out)
        return distributed.total(c, torch.from_numpy(out.ravel())).numpy()

    # ---- saving --------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """Tensors from which `load_state` makes the same planes, those of all ranks."""
        c = self.hinge.candidates
        kept = {name: torch.from_numpy(getattr(self, name)[self.used].copy()) for name in ("row", "cls", "alpha", "idle")}
        kept["row"] = torch.where(kept["row"] == MIXTURE, MIXTURE, kept["row"] + distributed.first_row(c))
        kept = {name: distributed.stack(c, values)[0] for name, values in kept.items()}
        return {"count": distributed.stack(c, torch.from_numpy(self.count.copy()))[0], **kept}

    def load_state(self, state: dict[str, Tensor], mixture: ImputedLatents | None) -> None:
        """Restore from `state()`; planes that are mixtures are those of `mixture`."""
        c, every = self.hinge.candidates, state["count"].cpu()
        count = distributed.own(c, every, "samples")
        first = 0 if c.shard is None else int(every[: c.shard.first("samples")].sum())
        here = {name: state[name].cpu()[first : first + int(count.sum())].numpy() for name in ("row", "cls", "alpha", "idle")}
        samples = np.repeat(np.arange(len(self.count)), count.numpy())
        self.count[:] = 0
        rows, classes = np.where(here["row"] == MIXTURE, MIXTURE, here["row"] - distributed.first_row(c)), here["cls"]
        mixed = rows == MIXTURE
        if mixture is not None and mixed.any():  # the first plane of its sample
            self.add_mixture(samples[mixed], mixture)
        self.add(samples[~mixed], rows[~mixed], classes[~mixed])
        used = self.used
        for name in ("alpha", "idle"):
            getattr(self, name)[used] = here[name]


def _rank(samples: np.ndarray) -> np.ndarray:
    """(m,): the position of each entry within its sample; samples are sorted, as all callers have them."""
    _, first, length = np.unique(samples, return_index=True, return_counts=True)
    return np.arange(len(samples)) - np.repeat(first, length)
