"""What a loss is, and what follows from it; a loss on part of a set; any function as a loss."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from lvmdc.arrays import ArrayLike
from lvmdc.candidates import Candidates, Latent
from lvmdc.losses.expectation import ExpectedLoss


class Loss(ABC):
    """The user's loss Δ(y1, h1, y2, h2) between a truth (y1, h1) and a prediction (y2, h2): ≥ 0, and 0 where they are the same.

    A custom loss implements `delta` and nothing else. The expected loss (7) and the self-diversity (8) then come from the double sum, in
    blocks that fit in memory. Shortcuts that a loss may declare where they hold: `class_cost`, if Δ does not depend on h where the
    classes differ; `within_class`, if its expectation where they agree has a closed form; `same_in_classes = True`, if Δ inside a class is
    the same for all classes. `lvmdc.testing.LossConformance` checks all of it.

    >>> class Shift(Loss):  # how far apart two candidates are in their sample's list
    ...     def delta(self, y1, h1, y2, h2):
    ...         return torch.where(y1 == y2, (h1.index - h2.index).abs().clamp(max=4) / 4, 1.0)
    >>> candidates = Candidates(torch.zeros(3, 1), [3])
    >>> Shift().diversity(candidates, [0], torch.tensor([0.5, 0.5, 0.0]))
    tensor([0.1250])
    """

    needs_boxes: bool = False
    of_label: bool = False  # whether Δ does not depend on h at all
    same_in_classes: bool = False  # whether Δ(y, h1, y, h2) is the same for every class y

    @abstractmethod
    def delta(self, y1: Tensor, h1: Latent, y2: Tensor, h2: Latent) -> Tensor:
        """Δ(y1, h1, y2, h2), vectorised: the arguments broadcast against each other."""

    def class_cost(self, y1: Tensor, y2: Tensor) -> Tensor | None:
        """Δ where y1 ≠ y2, if it is the same for all h; None if it is not. Values where y1 = y2 are not read."""
        return None

    def within_class(self, candidates: Candidates, p: Tensor) -> Tensor | None:
        """Closed form of Σ_h' p(h') Δ(y_i, h', y_i, h), linear in p, (T,) → (T,); None if there is none."""
        return None

    def delta_at(self, candidates: Candidates, y1: Tensor, rows1: Tensor, y2: Tensor, rows2: Tensor) -> Tensor:
        """Δ of truths (y1, h1) and predictions (y2, h2), h as packed rows, broadcast against each other; floating point."""
        delta = self.delta(y1, candidates.latent(rows1), y2, candidates.latent(rows2))
        delta = delta if delta.is_floating_point() else delta.to(torch.get_default_dtype())
        return delta.expand(np.broadcast_shapes(y1.shape, rows1.shape, y2.shape, rows2.shape))

    # ---- what follows --------------------------------------------------------------------------------------------

    def expected_loss(self, candidates: Candidates, y: ArrayLike, p: Tensor, n_classes: int | None = None) -> Tensor:
        """Δ_i(y, h; θ) = Σ_h' Δ(y_i, h', y, h) p_i(h') for all (y, h) at once (7), (T,) → (T, K), differentiable in p."""
        y = candidates.outputs(y, n_classes)
        classes = int(y.max()) + 1 if n_classes is None else n_classes
        return ExpectedLoss(self, candidates, y, classes).expected_loss(p)

    def diversity(self, candidates: Candidates, y: ArrayLike, p: Tensor) -> Tensor:
        """H_i(θ) = Σ_h Σ_h' p_i(h) p_i(h') Δ(y_i, h', y_i, h) (8), (T,) → (n,), differentiable in p."""
        y = candidates.outputs(y)
        return ExpectedLoss(self, candidates, y, int(y.max()) + 1).diversity(p)

    def between(self, candidates: Candidates, y1: ArrayLike, h1: ArrayLike, y2: ArrayLike, h2: ArrayLike) -> Tensor:
        """(n,) the loss of each sample's prediction (y2, h2) against its truth (y1, h1); h are candidate indices."""
        self.check_candidates(candidates)
        y1, y2 = candidates.outputs(y1), candidates.outputs(y2)
        return self.delta_at(candidates, y1, candidates.rows(h1), y2, candidates.rows(h2)).double()

    def check_candidates(self, candidates: Candidates) -> None:
        """Refuse candidates that lack what the loss reads."""
        if self.needs_boxes and candidates.boxes is None:
            raise ValueError(f"{type(self).__name__} needs Candidates(..., boxes=…), but boxes is None")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def check_loss(loss: Loss, candidates: Candidates, y: Tensor, n_classes: int) -> None:
    """Refuse a loss that is not one: Δ(z, z) ≠ 0 somewhere, or a value that is negative or not finite.

    Δ(z, z) is checked for every candidate and class; the sign of Δ between each candidate and its sample's first one, either as the truth.

    >>> from lvmdc.losses import FunctionLoss
    >>> check_loss(FunctionLoss(lambda y1, h1, y2, h2: 1.0), Candidates(torch.zeros(1, 1), [1]), torch.tensor([0]), 1)
    Traceback (most recent call last):
    ValueError: loss FunctionLoss(<lambda>, latent='index') must have Δ(z, z) = 0, but it is 1 for class 0, candidate 0 of sample 0
    """
    loss.check_candidates(candidates)
    rows = torch.arange(candidates.n_candidates, device=candidates.device)
    first, truth = candidates.offsets[candidates.sample], y[candidates.sample]
    for k in range(n_classes):
        label = torch.full_like(rows, k)
        itself = loss.delta_at(candidates, label, rows, label, rows).double()
        if not bool((itself.abs() <= 1e-6).all()):
            row = int((~(itself.abs() <= 1e-6)).nonzero()[0])
            where = f"class {k}, candidate {int(candidates.index(rows)[row])} of sample {int(candidates.sample[row])}"
            raise ValueError(f"loss {loss!r} must have Δ(z, z) = 0, but it is {float(itself[row]):g} for {where}")
        for one, two in ((first, rows), (rows, first)):
            other = loss.delta_at(candidates, truth, one, label, two).double()
            good = (other >= 0) & other.isfinite()
            if not bool(good.all()):
                row = int((~good).nonzero()[0])
                h1, h2 = (int(candidates.index(some)[row]) for some in (one, two))
                pair = f"truth ({int(truth[row])}, {h1}), prediction ({k}, {h2})"
                where = f"sample {int(candidates.sample[row])}, {pair}"
                raise ValueError(f"loss {loss!r} must be finite and not negative, but it is {float(other[row]):g} for {where}")


class SubsetLoss(Loss):
    """A loss on samples taken out of a set, so that a Δ that looks candidates up by their packed row still finds them.

    Args:
        rows: (T',) the row in the whole set of each row of the subset.

    >>> import torch
    >>> from lvmdc.losses import FunctionLoss
    >>> late = FunctionLoss(lambda y1, h1, y2, h2: ((h1 > 4) != (h2 > 4)).float(), latent="row")
    >>> SubsetLoss(late, torch.tensor([4, 5])).between(Candidates(torch.zeros(2, 1), [2]), [0], [0], [0], [1])
    tensor([1.], dtype=torch.float64)
    """

    def __init__(self, loss: Loss, rows: Tensor):
        self.loss, self.rows = loss, rows
        self.needs_boxes, self.of_label, self.same_in_classes = loss.needs_boxes, loss.of_label, loss.same_in_classes

    def delta(self, y1: Tensor, h1: Latent, y2: Tensor, h2: Latent) -> Tensor:
        return self.loss.delta(y1, self._in_set(h1), y2, self._in_set(h2))

    def class_cost(self, y1: Tensor, y2: Tensor) -> Tensor | None:
        return self.loss.class_cost(y1, y2)

    def within_class(self, candidates: Candidates, p: Tensor) -> Tensor | None:
        return self.loss.within_class(candidates, p)

    def _in_set(self, h: Latent) -> Latent:
        return h if h.row is None else replace(h, row=self.rows[h.row])


class FunctionLoss(Loss):
    """A custom Δ(y1, h1, y2, h2) as a function of tensors that broadcast against each other.

    Args:
        function: returns the loss of a prediction (y2, h2) where the truth is (y1, h1), elementwise. y1 and y2 are class indices.
        latent: what the function gets as h1 and h2: `index`, the position among the sample's candidates; `box`, the corners (…, 4); or
            `row`, the packed row.

    >>> far = FunctionLoss(lambda y1, h1, y2, h2: ((y1 != y2) | ((h1 - h2).abs() > 1)).float())
    >>> far.expected_loss(Candidates(torch.zeros(3, 1), [3]), [0], torch.tensor([1.0, 0.0, 0.0])).flatten()
    tensor([0., 0., 1.])
    """

    def __init__(self, function: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor], latent: Literal["index", "box", "row"] = "index"):
        if latent not in ("index", "box", "row"):
            raise ValueError(f"latent must be 'index', 'box' or 'row', but it is {latent!r}")
        self.function, self.latent = function, latent
        self.needs_boxes = latent == "box"

    def delta(self, y1: Tensor, h1: Latent, y2: Tensor, h2: Latent) -> Tensor:
        one, two = getattr(h1, self.latent), getattr(h2, self.latent)
        loss = torch.as_tensor(self.function(y1, one, y2, two), device=y1.device)
        shape = np.broadcast_shapes(y1.shape, h1.index.shape, y2.shape, h2.index.shape)
        try:
            return loss.to(loss.dtype if loss.is_floating_point() else torch.get_default_dtype()).expand(shape)
        except RuntimeError:
            raise ValueError(
                f"function must return a loss for every element, shape {tuple(shape)}, but it returned shape {tuple(loss.shape)}"
            ) from None

    def __repr__(self) -> str:
        return f"FunctionLoss({getattr(self.function, '__name__', 'function')}, latent={self.latent!r})"
