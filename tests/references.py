"""The paper's formulas as loops over plain numbers, and the small random problems on which the package is held against them."""

import math
from dataclasses import dataclass

import torch
from hypothesis import settings
from hypothesis import strategies as st

from lvmdc import Candidates, FunctionLoss, OverlapLoss, ZeroOneLoss
from lvmdc.distributions import Conditional, Delta, Joint
from lvmdc.testing import random_candidates, random_weights

SMALL = settings(max_examples=12, deadline=None, derandomize=True)


@dataclass
class Problem:
    """Samples with outputs y (n,), scores (T, K) of some w and a posterior p (T,)."""

    candidates: Candidates
    y: torch.Tensor
    n_classes: int
    scores: torch.Tensor
    p: torch.Tensor


def random_problem(counts=(3, 1, 4, 2), n_classes=3, seed=0):
    candidates = random_candidates(list(counts), seed)
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(n_classes, (len(candidates),), generator=generator)
    scores = torch.randn(candidates.n_candidates, n_classes, generator=generator, dtype=torch.float64)
    return Problem(candidates, y, n_classes, scores, random_weights(candidates, seed))


def problems():
    """Ragged problems of every small shape: one sample, one candidate and one class among them."""
    return st.builds(random_problem, st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(1, 3), st.integers(0, 999))


def lopsided(y1, h1, y2, h2):
    """A loss to which no shortcut applies: not symmetric in y or h, dependent on h across classes and on the class within one."""
    missed, spurious = (h1 - h2).clamp(min=0), (h2 - h1).clamp(min=0)
    return (1 + y1) * missed + 0.5 * spurious + (y1 != y2) * (0.25 + 2 * y1 + y2 + 0.1 * h1 + 0.3 * h2)


LOSSES = {"zero_one": ZeroOneLoss(), "overlap": OverlapLoss(), "lopsided": FunctionLoss(lopsided)}


# ---- loops -------------------------------------------------------------------------------------------------------


def start(candidates, i):
    return sum(candidates.counts.tolist()[:i])


def of_sample(candidates, values, i):
    """The rows of sample i as a list."""
    first = start(candidates, i)
    return values[first : first + int(candidates.counts[i])].tolist()


def delta(loss, candidates, i, y1, h1, y2, h2):
    one, two = (candidates.latent(torch.tensor([start(candidates, i) + h])) for h in (h1, h2))
    return float(loss.delta(torch.tensor([y1]), one, torch.tensor([y2]), two))


def probabilities(P, i):
    """{(y, h): probability} of one sample."""
    if isinstance(P, Delta):
        return {(int(P.y[i]), int(P.h[i])): 1.0}
    if isinstance(P, Conditional):
        return {(int(P.y[i]), h): p for h, p in enumerate(of_sample(P.candidates, P.p, i))}
    assert isinstance(P, Joint)
    return {(y, h): p for h, row in enumerate(of_sample(P.candidates, P.p, i)) for y, p in enumerate(row)}


def diversity(P, Q, loss):
    """(1)"""
    total = [0.0] * len(P.candidates)
    for i in range(len(total)):
        for (y1, h1), p in probabilities(P, i).items():
            for (y2, h2), q in probabilities(Q, i).items():
                total[i] += p * q * delta(loss, P.candidates, i, y1, h1, y2, h2)
    return torch.tensor(total, dtype=torch.float64)


def expected_loss(loss, problem):
    """(7)"""
    rows = []
    for i, label in enumerate(problem.y.tolist()):
        p = of_sample(problem.candidates, problem.p, i)
        for h in range(len(p)):
            terms = [[p[t] * delta(loss, problem.candidates, i, label, t, k, h) for t in range(len(p))] for k in range(problem.n_classes)]
            rows.append([sum(row) for row in terms])
    return torch.tensor(rows, dtype=torch.float64)


def argmax(candidates, values, i):
    """The (y, h) of greatest value (T, K), the first h and then the first y if several tie, and that value."""
    found = (-math.inf, None, None)
    for h, row in enumerate(of_sample(candidates, values, i)):
        for y, value in enumerate(row):
            if value > found[0]:
                found = (value, y, h)
    return found


def slack(problem, expected):
    """(9)"""
    result = []
    for i, label in enumerate(problem.y.tolist()):
        truth = max(row[label] for row in of_sample(problem.candidates, problem.scores, i))
        result.append(argmax(problem.candidates, problem.scores + expected, i)[0] - truth)
    return torch.tensor(result, dtype=torch.float64)


def softmax(scores):
    """(5) for one sample."""
    peak = max(scores)
    total = sum(math.exp(s - peak) for s in scores)
    return [math.exp(s - peak) / total for s in scores]
