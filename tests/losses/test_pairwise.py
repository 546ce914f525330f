from pathlib import Path

import pytest
import torch
from references import lopsided

from lvmdc import FunctionLoss, OverlapLoss
from lvmdc.losses import ExpectedLoss, PairwiseExpectation
from lvmdc.losses.pairwise import FlatPairs
from lvmdc.storage.mapped import memory_budget
from lvmdc.testing import random_candidates, random_weights

MEGABYTE = 1 << 20


class Watched(OverlapLoss):
    """Counts how often it is asked and for how many numbers at once."""

    def __init__(self):
        self.sizes = []

    def delta(self, y1, h1, y2, h2):
        result = super().delta(y1, h1, y2, h2)
        self.sizes.append(result.numel())
        return result

    def within_class(self, candidates, p):
        return None  # the double sum, not the compiled one


def own_class(c, loss, limit):
    y = torch.zeros(len(c), dtype=torch.long)
    return PairwiseExpectation(loss, c, y, y[:, None], limit)


@pytest.mark.parametrize("limit", [1, 100, 1000, 10_000, 100_000, None])
@pytest.mark.parametrize("counts", [[1], [7, 7, 7], [1, 30, 2, 2, 1], [5, 1, 5, 9]])
def test_every_budget_gives_the_sum_over_each_sample(counts, limit):
    c, loss = random_candidates(counts), FunctionLoss(lopsided)
    y, classes = torch.arange(len(counts)) % 2, torch.tensor([[0, 1, 2]]).expand(len(counts), -1)
    p = random_weights(c)
    expected = []
    for i, own in enumerate(torch.arange(c.n_candidates).split(counts)):
        h = c.latent(own)
        for row in own.tolist():
            one = c.latent(torch.tensor([row]))
            expected.append([float((loss.delta(y[i : i + 1], h, torch.tensor([k]), one).double() * p[own]).sum()) for k in range(3)])
    computed = PairwiseExpectation(loss, c, y, classes, limit)(p)
    assert torch.allclose(computed, torch.tensor(expected, dtype=torch.float64), rtol=1e-5)


def test_delta_is_computed_once_where_it_fits_and_again_where_it_does_not():
    c = random_candidates([20, 30])
    for limit, times in ((MEGABYTE, 1), (1000, 3)):
        loss = Watched()
        expectation = own_class(c, loss, limit)
        for _ in range(3):
            expectation(random_weights(c))
        assert sum(loss.sizes) == times * (20**2 + 30**2)


def test_samples_of_one_size_are_taken_together():
    loss = Watched()
    own_class(random_candidates([4] * 50 + [2] * 50), loss, MEGABYTE)(torch.ones(300))
    assert len(loss.sizes) <= 2
    assert sum(loss.sizes) == 50 * 4 + 50 * 16


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_the_list_of_all_pairs_gives_the_same_sums_both_ways(step):
    c, loss = random_candidates([5, 1, 9, 5]), FunctionLoss(lopsided)
    y, classes = torch.arange(4) % 2, torch.tensor([[0, 1, 2]]).expand(4, -1)
    blocks = PairwiseExpectation(loss, c, y, classes, 1)  # a budget of a byte: block by block
    flat = FlatPairs(c, lambda one, two: loss.delta_at(c, y[c.sample[one], None], one[:, None], classes[c.sample[one]], two[:, None]), step)
    p, q = random_weights(c), torch.randn(c.n_candidates, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(flat.apply(p, transposed=False), blocks.apply(p, transposed=False))
    assert torch.allclose(flat.apply(q, transposed=True), blocks.apply(q, transposed=True))


def test_the_map_can_be_differentiated_twice():
    c = random_candidates([3, 2])
    expectation = own_class(c, OverlapLoss(), 1)
    p = random_weights(c).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda q: expectation(q) * q[:, None], p)


def peak_memory():
    """Bytes that this process ever held at once since `forget_peak`."""
    return 1024 * int(next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line).split()[1])


def forget_peak():
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pytest.skip("the peak of this process's memory can be asked for on Linux only")
    return peak_memory()


@pytest.mark.slow
@pytest.mark.needs("an allocator that gives memory back at once")
def test_ten_thousand_candidates_stay_within_a_budget_of_64_megabytes():
    c = random_candidates([10_000], dtype=torch.float32)
    loss, p = Watched(), random_weights(c, dtype=torch.float32)
    OverlapLoss().diversity(random_candidates([10]), [0], torch.ones(10))  # loads what is loaded at the first use
    before = forget_peak()
    value = float(ExpectedLoss(loss, c, torch.tensor([0]), 2, 64 * MEGABYTE).diversity(p))
    # All of Δ would take 400 megabytes, and its temporaries thousands. What the allocator does not give back at once is allowed for.
    assert peak_memory() - before < 128 * MEGABYTE
    assert max(loss.sizes) * 8 * 10 <= 64 * MEGABYTE  # ten temporaries in the precision of the boxes
    assert sum(loss.sizes) == 10_000**2
    some = c._take(torch.arange(0, 10_000, 25), torch.tensor([400]))
    assert value == pytest.approx(float(OverlapLoss().diversity(some, [0], torch.full((400,), 1 / 400))), rel=0.02)


def test_a_budget_that_is_none_is_refused():
    with pytest.raises(ValueError, match="memory_budget must be a positive whole number of bytes, but it is 0"):
        own_class(random_candidates([2]), OverlapLoss(), 0)
    assert memory_budget(torch.device("cpu")) > 0
