"""Rao's diversity and dissimilarity of two distributions over (y, h), dispatched by type.

C. R. Rao, Diversity and dissimilarity coefficients: a unified approach, Theoretical Population Biology 21, 1982.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lvmdc.distributions import Conditional, Delta, Joint, OnSamples, Sampled, sampled_diversity, sampled_mean
from lvmdc.distributions.sampled import loss_from, loss_of_pairs
from lvmdc.losses import Loss
from lvmdc.losses.expectation import ExpectedLoss
from lvmdc.losses.pairwise import PairwiseExpectation
from lvmdc.segments import segment_sum

_registry: dict[tuple[type, type], Callable[[Any, Any, Loss], Tensor]] = {}


def register_diversity(p: type, q: type) -> Callable:
    """Register how H(P, Q) is computed for two types of distribution; lookups use the nearest registered types.

    >>> (Delta, Delta) in _registry
    True
    """

    def keep(function: Callable) -> Callable:
        _registry[p, q] = function
        return function

    return keep


def diversity(P: OnSamples, Q: OnSamples, loss: Loss) -> Tensor:
    """H(P, Q) = Σ_z Σ_z' Δ(z, z') P(z) Q(z') for each sample (1), (n,). P is the truth where Δ is not symmetric.

    >>> from lvmdc.losses import ZeroOneLoss
    >>> from lvmdc import Candidates
    >>> c, y = Candidates(torch.zeros(2, 1), [2]), torch.tensor([0])
    >>> diversity(Conditional(c, y, torch.tensor([0.75, 0.25])), Delta(c, y, torch.tensor([0])), ZeroOneLoss())
    tensor([0.2500])
    """
    if P.candidates is not Q.candidates:
        raise ValueError("diversity needs two distributions over the same Candidates object, but got two different ones")
    for one in type(P).__mro__:
        for two in type(Q).__mro__:
            if (one, two) in _registry:
                return _registry[one, two](P, Q, loss)
    raise TypeError(f"diversity is not defined for {type(P).__name__} and {type(Q).__name__}; see register_diversity")


def dissimilarity(P: OnSamples, Q: OnSamples, loss: Loss, beta: float = 0.5) -> Tensor:
    """D(P, Q) = H(P, Q) − β H(P, P) − (1−β) H(Q, Q) for each sample (2), (n,).

    >>> from lvmdc.losses import ZeroOneLoss
    >>> from lvmdc import Candidates
    >>> c, y = Candidates(torch.zeros(2, 1), [2]), torch.tensor([0])
    >>> p = Conditional(c, y, torch.tensor([0.75, 0.25]))
    >>> dissimilarity(p, Delta(c, y, torch.tensor([0])), ZeroOneLoss(), beta=0.1), dissimilarity(p, p, ZeroOneLoss())
    (tensor([0.2125]), tensor([0.]))
    """
    if not 0 < beta < 1:
        raise ValueError(f"beta must lie in (0, 1), but it is {beta}")
    return diversity(P, Q, loss) - beta * diversity(P, P, loss) - (1 - beta) * diversity(Q, Q, loss)


@register_diversity(Delta, Delta)
def _points(P: Delta, Q: Delta, loss: Loss) -> Tensor:
    return loss.between(P.candidates, P.y, P.h, Q.y, Q.h).to(torch.get_default_dtype())


@register_diversity(Conditional, Delta)
def _expected_at_point(P: Conditional, Q: Delta, loss: Loss) -> Tensor:
    classes = max(P.n_classes, Q.n_classes)
    return ExpectedLoss(loss, P.candidates, P.y, classes).expected_at(P.p, Q.y, Q.rows)


@register_diversity(Conditional, Conditional)
def _conditionals(P: Conditional, Q: Conditional, loss: Loss) -> Tensor:
    if torch.equal(P.y, Q.y):  # closed forms where the classes agree
        expected = ExpectedLoss(loss, P.candidates, P.y, P.n_classes).within_class(P.p)
    else:
        expected = PairwiseExpectation(loss, P.candidates, P.y, Q.y[:, None])(P.p)[:, 0]
    return segment_sum(expected * Q.p, P.candidates.counts)


@register_diversity(Conditional, Joint)
def _expected_under(P: Conditional, Q: Joint, loss: Loss) -> Tensor:
    classes = max(P.n_classes, Q.n_classes)
    return ExpectedLoss(loss, P.candidates, P.y, classes).agreement(P.p, Q.table(classes))


@register_diversity(Joint, Joint)
def _joints(P: Joint, Q: Joint, loss: Loss) -> Tensor:
    if P is not Q:
        return _any(P, Q, loss)
    any_class = torch.zeros(len(P.candidates), dtype=torch.long, device=P.p.device)
    return ExpectedLoss(loss, P.candidates, any_class, P.n_classes).joint_diversity(P.p)


@register_diversity(OnSamples, OnSamples)
def _any(P: OnSamples, Q: OnSamples, loss: Loss) -> Tensor:
    """The double sum over classes and candidates, one class of P at a time."""
    classes = max(P.n_classes, Q.n_classes)
    one, two = P.table(classes), Q.table(classes)
    dtype = torch.promote_types(one.dtype, two.dtype)
    one, two = one.to(dtype), two.to(dtype)
    total = two.new_zeros(len(P.candidates))
    for k in range(classes):
        label = torch.full((len(P.candidates),), k, device=two.device)
        expected = ExpectedLoss(loss, P.candidates, label, classes).expected_loss(one[:, k])
        total = total + segment_sum((expected * two).sum(dim=1), P.candidates.counts)
    return total


@register_diversity(Sampled, Sampled)
@register_diversity(Sampled, Delta)
@register_diversity(Delta, Sampled)
def _draws(P: Sampled | Delta, Q: Sampled | Delta, loss: Loss) -> Tensor:
    """Without bias: a distribution is compared with itself by different draws; two distributions need independent draws."""
    (rows1, log1), (rows2, log2) = ((D.rows, D.log_prob) if isinstance(D, Sampled) else (D.rows[:, None], None) for D in (P, Q))
    pairs = loss_of_pairs(loss, P.candidates, P.y, rows1, Q.y, rows2)  # (n, k, l)
    if P is Q:
        return sampled_diversity(pairs, log1)
    other = sampled_mean(pairs.mean(dim=1), log2)
    return sampled_mean(pairs.mean(dim=2), log1) + (other - other.detach())


@register_diversity(Conditional, Sampled)
def _expected_at_draws(P: Conditional, Q: Sampled, loss: Loss) -> Tensor:
    expectation = ExpectedLoss(loss, P.candidates, P.y, max(P.n_classes, Q.n_classes))
    return sampled_mean(torch.stack([expectation.expected_at(P.p, Q.y, rows) for rows in Q.rows.T], dim=1), Q.log_prob)


@register_diversity(Sampled, Conditional)
def _draws_expected(P: Sampled, Q: Conditional, loss: Loss) -> Tensor:
    c = P.candidates
    values = [segment_sum(loss_from(loss, c, P.y, rows, Q.y).to(Q.p.dtype) * Q.p, c.counts) for rows in P.rows.T]
    return sampled_mean(torch.stack(values, dim=1), P.log_prob)
