"""Candidates: the packed, ragged set of latent candidates of many samples, which everything else works on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from lvmdc import segments
from lvmdc.arrays import ArrayLike, as_tensor, check_finite, checked_counts
from lvmdc.boxes import checked_boxes
from lvmdc.storage import arrays as storage
from lvmdc.storage.mapped import take_mapped

if TYPE_CHECKING:
    from lvmdc.distributed import Shard

log = logging.getLogger(__name__)
OPTIONAL = ("boxes", "phi", "prior")
ARRAYS = ("features", "counts", *OPTIONAL)


@dataclass(frozen=True)
class Latent:
    """Values of h, as a loss Δ(y1, h1, y2, h2) sees them. Fields share their leading shape.

    `index` is the position among the sample's own candidates, `box` its corners (x1, y1, x2, y2) or None, `row` the packed row, by
    which a custom loss may look up anything it knows about a candidate.

    >>> Candidates(torch.eye(3), [2, 1]).latent(torch.tensor([1, 2]))
    Latent(index=tensor([1, 0]), box=None, row=tensor([1, 2]))
    """

    index: Tensor
    box: Tensor | None = None
    row: Tensor | None = None


class Candidates:
    """What the latent variable of each of n samples may be: T candidates in all, packed one sample after the other.

    Args:
        features: (T, d) what each candidate looks like, the x and h of Ψ(x, y, h). Float16, 32 or 64; may be mapped from disk.
        counts: (n,) the number of rows of each sample; they sum to T.
        boxes: (T, 4) corners x1, y1, x2, y2 of each candidate, for losses and starts that use positions.
        phi: (T, d') separate features for Φ(x, y, h), the conditional distribution; default `features`.
        prior: (T,) or, one column per class, (T, K) log weights of h: π(h | x, y) ∝ exp(prior), what is known of h before learning:
            P_θ(h | x, y) ∝ π(h | x, y) exp(θ·Φ(x, y, h)). A constant within a sample (and class) changes nothing. Default uniform, as in
            the paper.

    >>> c = Candidates(torch.eye(3), [2, 1])
    >>> len(c), c.n_candidates, c.sample.tolist()
    (2, 3, [0, 0, 1])
    """

    features: Tensor
    counts: Tensor
    boxes: Tensor | None
    phi: Tensor | None
    prior: Tensor | None
    _runs: tuple[Tensor, list[tuple[int, int, int]]] | None = None  # of which y, and what
    shard: Shard | None = None  # which part of a set over several ranks this is; see `lvmdc.distributed`

    def __init__(
        self,
        features: ArrayLike,
        counts: ArrayLike,
        boxes: ArrayLike | None = None,
        phi: ArrayLike | None = None,
        prior: ArrayLike | None = None,
    ):
        if isinstance(features, list | tuple) and any(getattr(part, "ndim", 1) > 1 for part in features):
            raise ValueError("features must be one array (T, d), but it is a list of them: join it, with counts=[len(x) for x in features]")
        self.features = as_tensor(features)
        if self.features.dim() != 2:
            shape = tuple(self.features.shape)
            raise ValueError(f"features must have shape (T, d), but it has shape {shape}; T are the candidates of all samples together")
        total, device = len(self.features), self.features.device
        self.features = _finite_floats("features", self.features)
        self.counts = checked_counts(counts, total).to(device)
        self.boxes = None if boxes is None else checked_boxes(boxes, total).to(device)
        self.phi = None if phi is None else as_tensor(phi).to(device)
        if self.phi is not None:
            if self.phi.dim() != 2 or len(self.phi) != total:
                raise ValueError(f"phi must have shape (T, d') with T = {total}, but it has shape {tuple(self.phi.shape)}")
            self.phi = _finite_floats("phi", self.phi)
        self.prior = None if prior is None else _checked_prior(prior, total).to(device)

    def _with(self, **parts: Any) -> Self:
        """The set with other parts, which were checked already."""
        new = object.__new__(type(self))
        for name in (*ARRAYS, "shard"):
            setattr(new, name, parts[name] if name in parts else getattr(self, name))
        return new

    def _changed(self, change: Callable[[Tensor], Tensor], *names: str) -> dict[str, Tensor | None]:
        """The named arrays, changed, where the set has them."""
        return {name: None if (values := getattr(self, name)) is None else change(values) for name in names}

    # ---- shape ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def shape(self) -> tuple[int]:
        """(n,): as an array of samples, which is how scikit-learn's splitters see it."""
        return (len(self),)

    @property
    def n_candidates(self) -> int:
        """T, the candidates of all samples."""
        return len(self.features)

    @property
    def n_features(self) -> int:
        """d, the length of one candidate's features."""
        return self.features.shape[1]

    @property
    def device(self) -> torch.device:
        return self.features.device

    @cached_property
    def sample(self) -> Tensor:
        """(T,) the sample that each row belongs to."""
        return segments.segment_ids(self.counts)

    @cached_property
    def offsets(self) -> Tensor:
        """(n,) the first row of each sample."""
        return self.counts.cumsum(0) - self.counts

    def runs(self, y: Tensor) -> list[tuple[int, int, int]]:
        """Class, first and last packed row of runs of samples of one class in y (n,). The last answer is kept, since a device makes the
        host wait for it.

        >>> Candidates(torch.eye(3), [1, 1, 1]).runs(torch.tensor([1, 1, 0]))
        [(1, 0, 2), (0, 2, 3)]
        """
        if self._runs is None or self._runs[0] is not y:
            labels, length = torch.unique_consecutive(y, return_counts=True)
            ends = (self.offsets + self.counts)[length.cumsum(0) - 1]
            classes, last = torch.stack([labels, ends]).tolist()
            self._runs = y, list(zip(classes, [0, *last[:-1]], last, strict=True))
        return self._runs[1]

    def __repr__(self) -> str:
        parts = f"{len(self)} samples, {self.n_candidates} candidates of {self.n_features} features"
        parts += "" if self.boxes is None else ", boxes"
        parts += "" if self.phi is None else f", phi of {self.phi.shape[1]}"
        if self.prior is not None:
            parts += ", prior" if self.prior.dim() == 1 else f", prior of {self.prior.shape[1]} classes"
        return f"Candidates({parts}, {self.features.dtype}, {self.device})"

    def outputs(self, y: ArrayLike, n_classes: int | None = None) -> Tensor:
        """(n,) class indices y of the samples on this device, refused unless they lie in 0..n_classes−1 (≥ 0 if None).

        >>> Candidates(torch.eye(3), [2, 1]).outputs([1, 0])
        tensor([1, 0])
        """
        try:
            labels = as_tensor(y).to(self.device)
        except TypeError as error:
            hint = "names, y = np.unique(labels, return_inverse=True) gives them for other labels"
            raise TypeError(f"y must hold class indices from 0 ({error}); {hint}") from None
        if labels.shape != self.counts.shape:
            raise ValueError(f"y must have shape ({len(self)},), one class per sample, but it has shape {tuple(labels.shape)}")
        if labels.is_floating_point() and not bool((labels == labels.round()).all()):
            raise ValueError("y must hold class indices, but it holds fractions")
        labels = labels.long()
        outside = ((labels < 0) | (labels >= (torch.inf if n_classes is None else n_classes))).nonzero().flatten()
        if len(outside):
            i, allowed = int(outside[0]), "≥ 0" if n_classes is None else f"in 0..{n_classes - 1}"
            raise ValueError(f"y must hold class indices {allowed}, but y[{i}] is {int(labels[i])}")
        return labels

    # ---- the prior of h ------------------------------------------------------------------------------------------

    def with_prior(self, prior: ArrayLike | None, strength: float = 1.0) -> Self:
        """The same set with other log weights (T,) or (T, K) of h, times `strength`; None: without any.

        >>> Candidates(torch.eye(2), [2]).with_prior(torch.tensor([0.0, 1.0]), strength=3.0).prior
        tensor([0., 3.])
        """
        weights = None if prior is None else (strength * _checked_prior(prior, self.n_candidates)).to(self.device)
        if weights is not None:
            check_finite("strength · prior", weights.reshape(len(weights), -1))
        return self._with(prior=weights)

    def log_prior(self, y: Tensor) -> Tensor | None:
        """(T,) in float64: log π(h | x_i, y_i) less its maximum over the sample, so that 0 is the most probable h; None where π is uniform.

        >>> Candidates(torch.eye(2), [2], prior=[[5.0, 1.0], [5.0, 3.0]]).log_prior(torch.tensor([1]))
        tensor([-2.,  0.], dtype=torch.float64)
        """
        if self.prior is None:
            return None
        own = self.prior
        if own.dim() == 2:
            self.check_prior(int(y.max()) + 1, exactly=False)
            own = own.gather(1, y[self.sample, None])[:, 0]
        own = own.double()
        return own - segments.segment_max(own, self.counts)[self.sample]

    def check_prior(self, n_classes: int, exactly: bool = True) -> None:
        """Refuse a prior (T, K) of another number of classes K; with `exactly=False`, of fewer."""
        given = n_classes if self.prior is None or self.prior.dim() == 1 else self.prior.shape[1]
        if given < n_classes or (exactly and given > n_classes):
            raise ValueError(
                f"prior must have shape (T,) or (T, K), one column for each of {n_classes} classes, but it has {given} columns"
            )

    # ---- which candidate -----------------------------------------------------------------------------------------

    def rows(self, h: ArrayLike) -> Tensor:
        """(n,) the packed rows of the candidates h, one per sample.

        >>> Candidates(torch.eye(3), [2, 1]).rows([1, 0])
        tensor([1, 2])
        """
        h = as_tensor(h).to(self.device)
        if h.shape != self.counts.shape:
            raise ValueError(f"h must have shape ({len(self)},), one candidate per sample, but it has shape {tuple(h.shape)}")
        if h.is_floating_point() or h.dtype == torch.bool:
            raise ValueError(f"h must hold integers, candidate indices, but it is {h.dtype}")
        bad = ((h < 0) | (h >= self.counts)).nonzero().flatten()
        if len(bad):
            i = int(bad[0])
            raise ValueError(f"h[{i}] must lie in 0..{int(self.counts[i]) - 1}, the candidates of sample {i}, but it is {int(h[i])}")
        return self.offsets + h.long()

    def index(self, rows: Tensor) -> Tensor:
        """The inverse of `rows`: positions among the samples' own candidates."""
        return rows - self.offsets[self.sample[rows]]

    def latent(self, rows: Tensor) -> Latent:
        """The values of h at packed rows of any shape, as losses see them: their `row` is that in the whole set."""
        whole = rows if self.shard is None else rows + self.shard.first("candidates")
        return Latent(self.index(rows), None if self.boxes is None else self.boxes[rows], whole)

    def select(self, h: ArrayLike) -> Self:
        """The set that keeps one candidate h[i] of each sample: what remains when h is known.

        >>> Candidates(torch.eye(3), [2, 1]).select([1, 0]).features
        tensor([[0., 1., 0.],
                [0., 0., 1.]])
        """
        return self._take(self.rows(h), torch.ones_like(self.counts))

    def subset(self, index: ArrayLike) -> Self:
        """The samples `index` (integers or a mask), in that order, with all of their candidates. Large mapped features stay mapped, in a
        temporary file (see `lvmdc.storage.mapped.take_mapped`).

        >>> Candidates(torch.eye(3), [2, 1]).subset([1]).features
        tensor([[0., 0., 1.]])
        """
        chosen = as_tensor(index).to(self.device).reshape(-1)
        if len(chosen) == 0 or (chosen.dtype == torch.bool and not bool(chosen.any())):
            raise ValueError("index must choose at least one sample, but it chooses none")
        if chosen.is_floating_point():
            raise ValueError(f"index must hold integers or be a mask, but it is {chosen.dtype}")
        if chosen.dtype == torch.bool and len(chosen) != len(self):
            raise ValueError(f"a mask must have shape ({len(self)},), one value per sample, but it has shape ({len(chosen)},)")
        chosen = chosen.nonzero().flatten() if chosen.dtype == torch.bool else chosen.long()
        counts = self.counts[chosen]
        first = self.offsets[chosen] - (counts.cumsum(0) - counts)
        return self._take(torch.arange(int(counts.sum()), device=self.device) + first.repeat_interleave(counts), counts)

    def __getitem__(self, index: Any) -> Self:
        """`subset`, as scikit-learn takes folds."""
        if isinstance(index, tuple):  # scikit-learn asks for X[index, ...]
            index = index[0]
        if isinstance(index, slice):
            index = range(len(self))[index]
        return self.subset(list(index) if isinstance(index, range) else index)

    def _take(self, rows: Tensor, counts: Tensor) -> Self:
        parts = self._changed(lambda values: take_mapped(values, rows), "features", "phi")
        parts |= self._changed(lambda values: values[rows], "boxes", "prior")
        return self._with(**parts, counts=counts, shard=None)

    def part(self, first: int, last: int, shard: Shard | None = None) -> Self:
        """The samples from `first` up to `last`, as a view that shares memory: features that are mapped stay mapped.

        >>> Candidates(torch.eye(3), [2, 1]).part(1, 2).features
        tensor([[0., 0., 1.]])
        """
        if not 0 <= first < last <= len(self):
            raise ValueError(f"part needs 0 ≤ first < last ≤ {len(self)}, but they are {first} and {last}")
        rows = slice(int(self.offsets[first]), int(self.offsets[last - 1] + self.counts[last - 1]))
        parts = self._changed(lambda values: values[rows], "features", *OPTIONAL)
        return self._with(**parts, counts=self.counts[first:last], shard=shard)

    # ---- other sets ----------------------------------------------------------------------------------------------

    def for_phi(self) -> Self:
        """The set as the conditional distribution sees it: `features` are those of Φ."""
        return self if self.phi is None else self._with(features=self.phi, phi=None)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """The same set on another device, its features (and those of Φ) in another precision."""
        device = device or self.device
        parts = self._changed(lambda values: values.to(device), "counts", "boxes", "prior")
        return self._with(**parts, **self._changed(lambda values: values.to(device, dtype or values.dtype), "features", "phi"))

    def detach(self) -> Self:
        """The same set, whose features carry no gradient."""
        return self._with(**self._changed(torch.Tensor.detach, "features", "phi", "prior"))

    @staticmethod
    def concat(sets: Sequence[Candidates]) -> Candidates:
        """The samples of several sets, one set after the other.

        >>> len(Candidates.concat([Candidates(torch.eye(3), [2, 1]), Candidates(torch.eye(3), [3])]))
        3
        """
        if not sets:
            raise ValueError("concat needs at least one set, but got none")
        for name in OPTIONAL:
            if len({getattr(s, name) is None for s in sets}) > 1:
                raise ValueError(f"concat needs {name} in all of the sets or in none of them")
        for name in ("features", "phi"):
            lengths = [getattr(s, name).shape[1] for s in sets if getattr(s, name) is not None]
            if len(set(lengths)) > 1:
                raise ValueError(f"concat needs {name} of one length, but got lengths {lengths}")
        shapes = {tuple(s.prior.shape[1:]) for s in sets if s.prior is not None}
        if len(shapes) > 1:
            raise ValueError(f"concat needs prior of one number of columns, but got shapes {sorted(('T', *shape) for shape in shapes)}")
        names = [name for name in ARRAYS if getattr(sets[0], name) is not None]
        return Candidates(**{name: torch.cat([getattr(s, name) for s in sets]) for name in names})

    # ---- on disk -------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write an npz with the arrays `features`, `counts` and, where given, `boxes`, `phi` and `prior`; see `lvmdc.storage.files`."""
        arrays = {name: getattr(self, name) for name in ARRAYS}
        storage.save_arrays(path, {name: values.detach().cpu().numpy() for name, values in arrays.items() if values is not None})

    @staticmethod
    def load(path: str | Path, mmap: bool | None = None) -> Candidates:
        """Read what `save`, or `numpy.savez(path, features=…, counts=…)`, wrote. Large files are mapped, not read,
        unless `mmap` says otherwise. No pickle is ever opened, and a file that does not match its checksum is refused."""
        if Path(path).is_file() and not storage.verify_checksum(path):
            log.warning("%s has no checksum, so that damage may stay unnoticed: load it and save it again to add one", path)
        arrays = storage.load_arrays(path, required=("features", "counts"), optional=OPTIONAL, mmap=mmap, verify=False)
        try:
            return Candidates(**arrays)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}: {error}") from None


def _finite_floats(name: str, values: Tensor) -> Tensor:
    values = values if values.is_floating_point() else values.to(torch.float32)
    check_finite(name, values)
    return values


def _checked_prior(prior: ArrayLike, total: int) -> Tensor:
    """(T,) or (T, K) finite log weights of h."""
    prior = as_tensor(prior)
    if prior.dim() not in (1, 2) or len(prior) != total or (prior.dim() == 2 and prior.shape[1] == 0):
        raise ValueError(f"prior must hold log weights of shape (T,) or (T, K) with T = {total}, but it has shape {tuple(prior.shape)}")
    prior = prior.to(torch.float64 if prior.dtype == torch.float64 else torch.float32)
    check_finite("prior", prior.reshape(total, -1))
    return prior
