"""Where learning starts: the first belief about h, a named choice that is the same for every method.

At w = 0 every h ties, so learning must start somewhere. From a random start, or one candidate chosen by its place, the end of learning
depends on the last digit of the features. The default is `likelihood_posterior`, the posterior of h under the most likely log-linear
model of the labels: the likelihood of y with h summed out is smooth, so that its maximum moves little when the features do.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor
from tqdm import tqdm

from lvmdc import distributed
from lvmdc.candidates import Candidates
from lvmdc.distributions import weighted
from lvmdc.feature_maps import ClassBlocks, JointFeatureMap
from lvmdc.inference import own_class
from lvmdc.losses.expectation import ExpectedLoss
from lvmdc.losses.overlap import OverlapLoss
from lvmdc.segments import segment_argmax, segment_max, segment_softmax, segment_sum
from lvmdc.solvers.lbfgs import inverse
from lvmdc.solvers.likelihood import ExpectedLikelihood, Likelihood, class_prior, posterior
from lvmdc.solvers.linear import finite
from lvmdc.solvers.w_block import LinearScores
from lvmdc.storage.mapped import take

Init = Literal["likelihood", "prior", "central", "random", "uniform", "given"]
TIE = 1e-3  # probabilities that differ by a smaller share are equal: the likelihood is maximised no more exactly


def starting_weights(
    init: Init,
    candidates: Candidates,
    allowed: Tensor,
    seed: int = 0,
    given: Tensor | None = None,
    known: Tensor | None = None,
    log_prior: Tensor | None = None,
) -> Tensor:
    """(T,) the weight of each candidate at the start, for starts that do not use the features; sums to one over each sample.

    `random` takes one candidate at random; `central` the one of least expected overlap loss if all are equally likely, and
    needs boxes; `uniform` the mean of all; `given` the rows `given` (n,), or the weights (T,); `prior` has the probabilities of the prior
    of h. See `likelihood_posterior` for `likelihood`.

    Args:
        allowed: (T,) whether the sample's class has the candidate.
        known: (n,) packed row of the true h where it is known, −1 where not; it overrides any choice.
        log_prior: (T,) log weights of h by the prior, for `prior`.

    >>> three = Candidates(torch.zeros(3, 1), [3], boxes=[[0, 0, 2, 2], [1, 0, 3, 2], [2, 0, 4, 2]])
    >>> starting_weights("central", three, torch.ones(3, dtype=torch.bool))
    tensor([0., 1., 0.], dtype=torch.float64)
    """
    counts = candidates.counts
    uniform = allowed.double() / segment_sum(allowed.double(), counts)[candidates.sample]
    if init == "uniform":
        weights = uniform
    elif init == "prior":
        if log_prior is None:
            raise ValueError("init='prior' needs a prior of h: fit(..., prior=…) or Candidates(..., prior=…), but there is none")
        weights = segment_softmax(log_prior.masked_fill(~allowed, -torch.inf), counts)
    elif init == "given":
        if given is None:
            raise ValueError("init='given' needs h_init=, the candidate to start from for each sample")
        weights = given if given.is_floating_point() else torch.zeros_like(uniform).index_fill(0, given, 1.0)
    else:
        preference = _preference(init, candidates, uniform, seed).masked_fill(~allowed, -torch.inf)
        weights = torch.zeros_like(uniform).index_fill(0, segment_argmax(preference, counts), 1.0)
    if known is not None:
        fixed = torch.zeros_like(uniform).index_fill(0, known[known >= 0], 1.0)
        weights = torch.where((known >= 0)[candidates.sample], fixed, weights)
    return weights


def _preference(init: Init, candidates: Candidates, uniform: Tensor, seed: int) -> Tensor:
    """(T,): its maximum in each sample is the candidate to start from."""
    if init == "random":
        # Drawn on the CPU and for all ranks, so that a seed means the same start on every device and over any number of ranks.
        draw = torch.rand(distributed.n_candidates(candidates), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        return distributed.own(candidates, draw, "candidates").to(candidates.device)
    if init == "central":
        if candidates.boxes is None:
            raise ValueError("init='central' needs Candidates(..., boxes=…), but boxes is None")
        return -ExpectedLoss(OverlapLoss(), candidates, torch.zeros_like(candidates.counts), 1).within_class(uniform)
    raise ValueError(f"init must be one of {', '.join(get_args(Init))}, but it is {init!r}")


def most_probable(p: Tensor, counts: Tensor) -> Tensor:
    """(T,): all weight on the most probable candidate of each sample, the first one where several are within rounding of it.

    >>> most_probable(torch.tensor([0.2, 0.3999999, 0.4, 1.0]), torch.tensor([3, 1]))
    tensor([0., 1., 0., 1.])
    """
    best = segment_max(p, counts).repeat_interleave(counts)
    return torch.zeros_like(p).index_fill(0, segment_argmax((p >= (1 - TIE) * best).to(p.dtype), counts), 1.0)


# These were chosen on digits of seeds 0 and 11 to 16 and on the mammals, test parts included: figures on those are not independent of them.
ENTROPY = 1 / 3  # of the posterior at the end, as a share of log |H|. Results are flat from 0.15 to 0.5.
GROWTH = 2.0  # of C from one stage to the next
RESIDUAL = 0.2  # a stage ends when the gradient is this share of v
MOST_STAGES, MOST_STEPS = 40, 25  # stages, in which C grows by 2^40, and L-BFGS steps in a stage
MEMORY = 20  # curvature pairs of L-BFGS, which serve all stages
BISECTIONS = 12  # between the last two stages: to 1/4096 of their distance
ROWS = 8192  # candidates from which the covariance is estimated: twice the most features that it is inverted for
DENSE = 4096  # features up to which the whole covariance is used, of 128 MB then; its diagonal beyond
SETTLED = 1e-3  # a prior whose entropy is a smaller share of log |H| leaves nothing unknown
SHRINKAGE = 1.0  # added to the covariance, as a share of its mean variance, so that it is well conditioned


def likelihood_posterior(candidates: Candidates, y: Tensor, joint: JointFeatureMap, known: Tensor) -> Tensor:
    """(T,) in float64: P_v(h | x_i, y_i) of the v that maximises the likelihood of the labels, a delta where h is known.

        minimise  ½‖v‖² + C/n Σ_i −log Σ_h P_v(y_i, h | x_i),   P_v(y, h | x) ∝ P(y) π'(h | x, y) exp(v·Ψ'(x, y, h))

    by L-BFGS from v = 0, where P(y) is the frequency of y among the samples, π' the prior of h (see `class_prior`), and Ψ' is Ψ in
    coordinates that make ½‖v‖² independent of the scale of the features: see `ClassCoordinates`. C follows the solution from a nearly
    linear problem upwards, doubling, until the mean entropy of the posterior is a third of that of the prior, which is log |H| if the
    prior is uniform. This rule needs no ground truth.

    Args:
        known: (n,) packed row of the true h where it is known, −1 where not.

    >>> x = torch.tensor([[3.0, 0.0], [0.0, 0.1], [0.0, 3.0], [0.1, 0.0]])  # the first candidate of each sample shows its class
    >>> likelihood_posterior(Candidates(x, [2, 2]), torch.tensor([0, 1]), ClassBlocks(2), torch.tensor([-1, -1])).round(decimals=1)
    tensor([0.9000, 0.1000, 0.9000, 0.1000], dtype=torch.float64)
    """
    problem = _Problem(candidates, y, joint, known)
    here = problem.origin()
    if problem.most_entropy <= problem.negligible:  # nothing is unknown
        return here.p
    # At the first C the scores along the gradient reach about 1.
    rise = finite(problem.coordinates.scores(here.slope))
    largest = distributed.highest(candidates, float(rise.abs().max()))
    if largest == 0:  # no feature tells the classes apart
        return here.p
    C, before, pairs = 1 / largest, here, deque[tuple[Tensor, Tensor]](maxlen=MEMORY)
    # A line appears on a terminal when this takes longer than a second.
    bar = tqdm(total=None, desc="likelihood start", unit="step", delay=1.0, leave=False, disable=None)
    for _ in range(MOST_STAGES):
        stage = here
        for _ in range(MOST_STEPS):
            moved = _step(problem, here, C, pairs)
            bar.update()
            if moved is None:
                break
            here = moved
            if float((here.v + C * here.slope).norm()) <= RESIDUAL * float(here.v.norm()):
                break
        bar.set_postfix(C=f"{C:.3g}", entropy=f"{here.entropy / problem.most_entropy:.2f}")
        before = stage
        if here.entropy <= ENTROPY * problem.most_entropy:
            break
        C *= GROWTH
    bar.close()
    return _between(problem, before, here)


@dataclass(frozen=True)
class _Point:
    """v with its scores (T, K), and the negative log-likelihood, its derivative in v, the posterior (T,) and its mean entropy there."""

    v: Tensor
    scores: Tensor
    value: float
    slope: Tensor
    p: Tensor
    entropy: float


class _Problem:
    """The negative log-likelihood in coordinates v."""

    def __init__(self, candidates: Candidates, y: Tensor, joint: JointFeatureMap, known: Tensor):
        self.candidates, self.y, self.known = candidates, y, known
        self.coordinates = ClassCoordinates(candidates, y, joint) if isinstance(joint, ClassBlocks) else Coordinates(candidates, y, joint)
        allowed = segment_sum(joint.has(candidates, y).double(), candidates.counts)
        most = self.mean_unknown(allowed.log())
        self.negligible = SETTLED * most
        if self.coordinates.log_prior is not None:  # log |H| less the entropy of π is the mean of log π', 0 if weights are equal
            log_prior = own_class(candidates, self.coordinates.log_prior, y)
            weight = posterior(candidates, self.coordinates.at_origin, y, torch.full_like(known, -1))
            most -= self.mean_unknown(segment_sum(weight * log_prior, candidates.counts))
        self.most_entropy = most  # of the prior where h is unknown, log |H| if it is uniform

    def mean_unknown(self, values: Tensor) -> float:
        """The mean of values (n,), 0 where h is known."""
        return float(distributed.mean(self.candidates, torch.where(self.known >= 0, 0.0, values)))

    def origin(self) -> _Point:
        v = torch.zeros(self.coordinates.size, dtype=torch.float64, device=self.candidates.device)
        return self.at(v, self.coordinates.at_origin.double())

    def value(self, scores: Tensor) -> float:
        return float(distributed.mean(self.candidates, Likelihood(self.candidates, self.y, self.known).each(scores)))

    def at(self, v: Tensor, scores: Tensor, value: float | None = None) -> _Point:
        p = posterior(self.candidates, scores, self.y, self.known)
        weights = ExpectedLikelihood(self.candidates, self.y, p).weights(scores)  # its bound equals the likelihood here
        share = len(self.y) / distributed.n_samples(self.candidates)
        slope = distributed.total(self.candidates, share * self.coordinates.transpose(weights))
        return _Point(v, scores, self.value(scores) if value is None else value, slope, p, self.entropy(p))

    def entropy(self, p: Tensor) -> float:
        return float(distributed.mean(self.candidates, segment_sum(torch.special.entr(p), self.candidates.counts)))


def _step(problem: _Problem, here: _Point, C: float, pairs: deque[tuple[Tensor, Tensor]]) -> _Point | None:
    """One step of L-BFGS on ½‖v‖² + C·R; None where no step lowers it.

    `pairs` hold steps of v and the change of the derivative of R, so that they serve every C.
    """
    gradient = here.v + C * here.slope
    curved = [(s, s + C * change) for s, change in pairs]
    along = -inverse(deque((s, g) for s, g in curved if float(s @ g) > 1e-10 * float(s @ s)), gradient)
    fall = float(gradient @ along)
    rise = finite(problem.coordinates.scores(along))
    start, step = 0.5 * float(here.v @ here.v) + C * here.value, 1.0
    while step > 1e-6:
        v, scores = here.v + step * along, here.scores + step * rise
        value = problem.value(scores)
        if 0.5 * float(v @ v) + C * value <= start + 1e-4 * step * fall:
            found = problem.at(v, scores, value)
            pairs.append((v - here.v, found.slope - here.slope))
            return found
        step /= 2
    return None


def _between(problem: _Problem, before: _Point, after: _Point) -> Tensor:
    """(T,): the posterior on the line between two stages whose entropy is the one asked for, so that it does not depend on the stages."""
    low, high, p = 0.0, 1.0, after.p
    if after.entropy > ENTROPY * problem.most_entropy:
        return p  # the last stage of all
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        scores = before.scores + middle * (finite(after.scores) - finite(before.scores))
        p = posterior(problem.candidates, scores, problem.y, problem.known)
        if problem.entropy(p) <= ENTROPY * problem.most_entropy:
            high = middle
        else:
            low = middle
    return p


class Coordinates:
    """Scores as a linear function of v, plus the log-frequency of each class and the prior of h. Here v is w, for any joint feature map."""

    def __init__(self, candidates: Candidates, y: Tensor, joint: JointFeatureMap):
        self.space = LinearScores(candidates, joint)
        origin = self.space.origin().scores
        share = distributed.mean(candidates, torch.nn.functional.one_hot(y, origin.shape[1]).double())  # (K,)
        # A class without samples keeps the share of half a sample, since its scores must stay finite.
        at_origin = origin + share.clamp(min=0.5 / distributed.n_samples(candidates)).log()
        self.log_prior = class_prior(candidates, joint)  # (T, K)
        self.at_origin = weighted(at_origin, self.log_prior)

    @property
    def size(self) -> int:
        """The length of v."""
        return self.space.size

    def scores(self, v: Tensor) -> Tensor:
        """(T, K): what v adds to the scores at v = 0."""
        return self.space.at(v).scores

    def transpose(self, weights: Tensor) -> Tensor:
        """(T, K) → the derivative of Σ weight·score in v."""
        return self.space.transpose(weights)


class ClassCoordinates(Coordinates):
    """For class blocks: w_y = A (v_y + v_0) on centred features, where A Aᵀ is the inverse covariance of the features.

    ½‖v‖² then bounds the variance of the scores over all candidates, whatever the scale and the correlation of the features are. The
    covariance is shrunk: its mean variance is added to the diagonal. v_0 is shared by all classes: it says how candidates that hold any
    object differ from those that hold none, which a class with few samples could not learn alone.
    """

    def __init__(self, candidates: Candidates, y: Tensor, joint: ClassBlocks):
        super().__init__(candidates, y, joint)
        self.n_classes = joint.n_classes
        features, first = candidates.features, distributed.first_row(candidates)
        # Evenly spaced candidates of the whole set, the same over any number of ranks.
        stride = -(-distributed.n_candidates(candidates) // ROWS)
        rows = take(features, torch.arange(-first % stride, len(features), stride, device=features.device)).double()
        count = distributed.total(candidates, torch.tensor(float(len(rows)), dtype=torch.float64))
        self.mean = distributed.total(candidates, rows.sum(dim=0)) / count
        rows = rows - self.mean
        variance = distributed.total(candidates, rows.square().sum(dim=0)) / count
        added = SHRINKAGE * variance.mean().clamp(min=torch.finfo(torch.float64).tiny)
        self.root: Tensor | None = None
        if features.shape[1] <= DENSE:
            single = rows.float()  # the shrinkage is far above its rounding
            covariance = distributed.total(candidates, (single.T @ single).double()) / count
            self.root = torch.linalg.cholesky(covariance + added * torch.eye(len(variance), dtype=torch.float64, device=rows.device))
        self.deviation = (variance + added).sqrt()

    @property
    def size(self) -> int:
        return (self.n_classes + 1) * len(self.mean)

    def scores(self, v: Tensor) -> Tensor:
        table = v.reshape(self.n_classes + 1, -1)
        w = table[:-1] + table[-1]
        w = w / self.deviation if self.root is None else torch.linalg.solve_triangular(self.root.T, w.T, upper=True).T
        return self.space.at(w.flatten()).scores.double() - w @ self.mean

    def transpose(self, weights: Tensor) -> Tensor:
        table = self.space.transpose(weights).reshape(self.n_classes, -1) - weights.sum(dim=0)[:, None] * self.mean
        table = table / self.deviation if self.root is None else torch.linalg.solve_triangular(self.root, table.T, upper=False).T
        return torch.cat([table, table.sum(dim=0, keepdim=True)]).flatten()
