import pytest
import torch
from learners.problems import overlap, problem

from lvmdc.segments import segment_sum
from lvmdc.solvers import starting_weights


def everything(p) -> torch.Tensor:
    return torch.ones(p.candidates.n_candidates, dtype=torch.bool)


@pytest.mark.parametrize("init", ["random", "central", "uniform", "given"])
def test_weights_sum_to_one_and_only_use_what_the_class_has(init):
    p = problem(0, n=12, most=6)
    allowed = torch.rand(p.candidates.n_candidates, generator=torch.Generator().manual_seed(0)) < 0.5
    allowed[p.candidates.offsets] = True
    weights = starting_weights(init, p.candidates, allowed, 0, p.candidates.offsets)
    torch.testing.assert_close(segment_sum(weights, p.candidates.counts), torch.ones(12, dtype=torch.float64))
    assert float(weights[~allowed].sum()) == 0


def test_central_is_the_box_of_least_mean_overlap_loss():
    p = problem(1, n=6, most=6)
    boxes = p.candidates.boxes.double().numpy()
    weights = starting_weights("central", p.candidates, everything(p))
    for i in range(6):
        loss = [sum(1 - overlap(boxes[r], boxes[s]) for s in p.of(i)) for r in p.of(i)]
        assert int(weights[p.of(i).start : p.of(i).stop].argmax()) == loss.index(min(loss))


def test_random_follows_the_seed():
    p = problem(1, n=20, most=6)
    draws = [starting_weights("random", p.candidates, everything(p), seed) for seed in (0, 0, 1)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


@pytest.mark.parametrize("init", ["random", "uniform", "central"])
def test_a_known_h_goes_before_any_choice(init):
    p = problem(1, n=10, most=6)
    known = torch.where(torch.arange(10) % 3 == 0, p.candidates.offsets + p.h, -1)
    weights = starting_weights(init, p.candidates, everything(p), known=known)
    assert (weights[known[known >= 0]] == 1).all()
    torch.testing.assert_close(segment_sum(weights, p.candidates.counts), torch.ones(10, dtype=torch.float64))


def test_what_it_lacks_is_named():
    p = problem(1)
    with pytest.raises(ValueError, match="init='given' needs h_init="):
        starting_weights("given", p.candidates, everything(p))
    with pytest.raises(ValueError, match="init must be one of likelihood, prior, central, random, uniform, given, but it is 'first'"):
        starting_weights("first", p.candidates, everything(p))
    p.candidates.boxes = None
    with pytest.raises(ValueError, match="init='central' needs Candidates"):
        starting_weights("central", p.candidates, everything(p))
