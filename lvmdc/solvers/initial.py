"""Where learning starts: the first belief about h, a named choice that is the same for every method."""

from typing import Literal, get_args

import torch
from torch import Tensor

from lvmdc import distributed
from lvmdc.candidates import Candidates
from lvmdc.losses.expectation import ExpectedLoss
from lvmdc.losses.overlap import OverlapLoss
from lvmdc.segments import segment_argmax, segment_max, segment_softmax, segment_sum

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
    needs boxes; `uniform` the mean of all; `given` the rows `given` (n,); `prior` has the probabilities of the prior of h. See
    `likelihood_posterior` for `likelihood`.

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
        weights = torch.zeros_like(uniform).index_fill(0, given, 1.0)
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
