"""What a learner refuses before any work, each with one clear sentence."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from lvmdc.arrays import ArrayLike, as_tensor
from lvmdc.candidates import Candidates
from lvmdc.feature_maps import JointFeatureMap
from lvmdc.segments import segment_sum


@dataclass(frozen=True)
class Checked:
    """Samples that can be learned from: y (n,), packed rows (n,) of the `known` h, −1 where there is none, which candidates (T,) the class
    of their sample is `allowed`, and the given `start`: packed rows (n,), −1 where there is none, or probabilities (T,)."""

    candidates: Candidates
    y: Tensor
    known: Tensor
    allowed: Tensor
    start: Tensor


def check_candidates(candidates: Any) -> Candidates:
    """Refuse what is not a `Candidates`."""
    if not isinstance(candidates, Candidates):
        raise TypeError(f"Expected a Candidates object but got {type(candidates).__name__}; see lvmdc.Candidates(features, counts)")
    return candidates


def with_prior(candidates: Any, prior: ArrayLike | None) -> Candidates:
    """The candidates with the log weights (T,) or (T, K) of h given to `fit`; refused where they have some already."""
    checked = check_candidates(candidates)
    if prior is None:
        return checked
    if checked.prior is not None:
        raise ValueError("prior= was given to fit, but the candidates have a prior already; give one of them, or use with_prior")
    return checked.with_prior(prior)


def check_positive(name: str, value: float, zero: bool = False) -> None:
    """Refuse a weight or tolerance that is not a positive number.

    >>> check_positive("C", -1.0)
    Traceback (most recent call last):
    ValueError: C must be a positive number, but it is -1.0
    """
    good = isinstance(value, Real) and math.isfinite(value) and (value > 0 or (zero and value == 0))
    if not good:
        raise ValueError(f"{name} must be a {'' if zero else 'positive '}number{' ≥ 0' if zero else ''}, but it is {value!r}")


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse a name that is not among the choices.

    >>> check_choice("theta_bound", "slak", ("prediction", "slack"))
    Traceback (most recent call last):
    ValueError: theta_bound must be one of prediction, slack, but it is 'slak'
    """
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, but it is {value!r}")


def check_joint(joint: JointFeatureMap, candidates: Candidates, n_classes: int) -> None:
    """Refuse a joint feature map that scores another number of classes."""
    one = candidates.subset([0])
    nothing = torch.zeros(joint.size(one), dtype=torch.float64, device=candidates.device)
    columns = joint.scores(one, nothing).shape[1]
    if columns != n_classes:
        raise ValueError(f"joint must score n_classes = {n_classes} classes, but it scores {columns}; see n_classes=")


def check_allowed(allowed: Tensor, candidates: Candidates, y: Tensor) -> Tensor:
    """Refuse a sample whose class y has none of its candidates, by `allowed` (T,)."""
    none = (segment_sum(allowed.double(), candidates.counts) == 0).nonzero().flatten()
    if len(none):
        i = int(none[0])
        raise ValueError(f"joint must leave every sample a candidate of its class, but class {int(y[i])} of sample {i} has none")
    return allowed


def check_belief(p: ArrayLike, candidates: Candidates, allowed: Tensor) -> Tensor:
    """(T,) in float64: probabilities of the candidates to start from, which sum to one over each sample.

    >>> check_belief([0.5, 0.25], Candidates(torch.eye(2), [2]), torch.ones(2, dtype=torch.bool))
    Traceback (most recent call last):
    ValueError: h_init must sum to 1 over the candidates of each sample, but that of sample 0 sums to 0.75
    """
    belief = as_tensor(p).to(candidates.device, torch.float64)
    if belief.shape != (candidates.n_candidates,):
        expected = f"{candidates.n_candidates} probabilities, one per candidate, or {len(candidates)} candidate indices"
        raise ValueError(f"h_init must have {expected}, but it has shape {tuple(belief.shape)}")
    if not bool(((belief >= 0) & (belief <= 1)).all()):
        raise ValueError("h_init must have probabilities between 0 and 1, but one is not")
    sums = segment_sum(belief.where(allowed, 0.0), candidates.counts)
    wrong = ((sums - 1).abs() > 1e-3).nonzero().flatten()
    if len(wrong):
        i = int(wrong[0])
        raise ValueError(f"h_init must sum to 1 over the candidates of each sample, but that of sample {i} sums to {float(sums[i]):g}")
    return belief.where(allowed, 0.0) / sums[candidates.sample]


def check_latents(h: ArrayLike | None, candidates: Candidates, allowed: Tensor, name: str = "h") -> Tensor:
    """(n,) packed rows of candidate indices h, −1 where h is −1 or None: unknown."""
    if h is None:
        return torch.full_like(candidates.counts, -1)
    index = as_tensor(h).to(candidates.device)
    if index.shape != (len(candidates),):
        raise ValueError(f"{name} must have shape ({len(candidates)},), one candidate per sample, but it has shape {tuple(index.shape)}")
    if index.is_floating_point():
        raise ValueError(f"{name} must hold integers, candidate indices or −1 where unknown, but it is {index.dtype}")
    index = index.long()
    bad = ((index < -1) | (index >= candidates.counts)).nonzero().flatten()
    if len(bad):
        i = int(bad[0])
        raise ValueError(f"{name}[{i}] must lie in 0..{int(candidates.counts[i]) - 1}, or be −1 where unknown, but it is {int(index[i])}")
    rows = torch.where(index >= 0, candidates.offsets + index, -1)
    missing = ((rows >= 0) & ~allowed[rows.clamp(min=0)]).nonzero().flatten()
    if len(missing):
        i = int(missing[0])
        raise ValueError(f"{name}[{i}] is candidate {int(index[i])}, which the class of sample {i} does not have")
    return rows
