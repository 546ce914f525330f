import itertools
from dataclasses import dataclass

import pytest
import references
import torch
from hypothesis import given
from hypothesis import strategies as st
from references import LOSSES, SMALL, problems, random_problem

from lvmdc import Candidates, dissimilarity, diversity
from lvmdc.dissimilarity import _registry, register_diversity
from lvmdc.distributions import Conditional, Delta, Joint, OnSamples
from lvmdc.testing import random_weights


def kinds(problem, seed):
    """A distribution of each type, the classes of no two the same."""
    c, generator = problem.candidates, torch.Generator().manual_seed(seed)
    y = torch.randint(problem.n_classes, (len(c),), generator=generator)
    h = torch.randint(1000, (len(c),), generator=generator) % c.counts
    table = torch.rand(c.n_candidates, problem.n_classes, generator=generator, dtype=torch.float64)
    total = torch.stack([part.sum() for part in table.split(c.counts.tolist())])
    return {
        "delta": Delta(c, y, h),
        "conditional": Conditional(c, y.flip(0), random_weights(c, seed)),
        "joint": Joint(c, table / total[c.sample, None]),
    }


PAIRS = list(itertools.product(["delta", "conditional", "joint"], repeat=2))


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize(("one", "two"), PAIRS)
@SMALL
@given(problem=problems(), seed=st.integers(0, 99))
def test_diversity_is_the_double_sum_for_every_pair_of_types(one, two, loss, problem, seed):
    P, Q = kinds(problem, seed)[one], kinds(problem, seed + 1)[two]
    H = diversity(P, Q, loss)
    assert H.shape == (len(problem.candidates),)
    assert torch.allclose(H.double(), references.diversity(P, Q, loss), rtol=1e-5, atol=1e-6)
    assert bool((H >= -1e-7).all())


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@SMALL
@given(problem=problems())
def test_diversity_of_posteriors_of_the_same_classes_is_the_double_sum(loss, problem):
    P, Q = (Conditional(problem.candidates, problem.y, random_weights(problem.candidates, seed)) for seed in (1, 2))
    assert torch.allclose(diversity(P, Q, loss), references.diversity(P, Q, loss), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize(("one", "two"), PAIRS)
def test_dissimilarity_is_the_difference_of_diversities(problem, one, two, loss):
    P, Q = kinds(problem, 0)[one], kinds(problem, 1)[two]
    for beta in (0.1, 0.5, 0.9):
        expected = (
            references.diversity(P, Q, loss) - beta * references.diversity(P, P, loss) - (1 - beta) * references.diversity(Q, Q, loss)
        )
        assert torch.allclose(dissimilarity(P, Q, loss, beta).double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("kind", ["delta", "conditional", "joint"])
@SMALL
@given(problem=problems(), beta=st.floats(0.01, 0.99))
def test_a_distribution_is_not_dissimilar_to_itself_for_any_beta(loss, kind, problem, beta):
    P = kinds(problem, 3)[kind]
    assert torch.allclose(dissimilarity(P, P, loss, beta).double(), torch.zeros(len(problem.candidates)).double(), atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_a_delta_has_no_diversity_in_itself(problem, loss):
    assert diversity(kinds(problem, 0)["delta"], kinds(problem, 0)["delta"], loss).tolist() == [0.0] * 4


def test_diversity_of_a_posterior_in_itself_is_that_of_the_loss(problem):
    P = Conditional(problem.candidates, problem.y, problem.p)
    for loss in LOSSES.values():
        assert torch.allclose(diversity(P, P, loss), loss.diversity(problem.candidates, problem.y, problem.p))


@pytest.mark.parametrize(("one", "two"), [("conditional", "delta"), ("conditional", "conditional"), ("joint", "conditional")])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_derivative_in_the_probabilities_is_that_of_differences(problem, one, two, loss):
    P, Q = kinds(problem, 0)[one], kinds(problem, 1)[two]

    def H(p):
        fresh = Joint(P.candidates, p) if one == "joint" else Conditional(P.candidates, P.y, p)
        return diversity(fresh, Q, loss)

    assert torch.autograd.gradcheck(H, P.p.clone().requires_grad_())


# ---- custom types ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Half(OnSamples):
    """A user's own: half on the first candidate of class 0, half on the last one of class 1."""

    @property
    def n_classes(self):
        return 2

    def table(self, n_classes):
        table = torch.zeros(self.candidates.n_candidates, n_classes, dtype=torch.float64)
        table[self.candidates.offsets, 0] = 0.5
        table[self.candidates.offsets + self.candidates.counts - 1, 1] = 0.5
        return table


class Quarter(Half):
    """A user's own, of a type that is registered with its parent."""


@pytest.fixture
def registry(monkeypatch):
    for pair in [pair for pair in _registry if Half in pair]:
        monkeypatch.delitem(_registry, pair)
    before = dict(_registry)
    yield
    _registry.clear()
    _registry.update(before)


@pytest.mark.usefixtures("registry")
def test_a_type_of_ones_own_needs_its_table_alone(problem):
    mine, loss = Half(problem.candidates), LOSSES["lopsided"]
    as_joint = Joint(problem.candidates, mine.table(3))
    for other in kinds(problem, 0).values():
        assert torch.allclose(diversity(mine, other, loss).double(), references.diversity(as_joint, other, loss), rtol=1e-5)
        assert torch.allclose(diversity(other, mine, loss).double(), references.diversity(other, as_joint, loss), rtol=1e-5)


@pytest.mark.usefixtures("registry")
def test_a_registered_form_is_used_for_the_type_and_its_children(problem):
    @register_diversity(Half, Conditional)
    def closed_form(P, Q, loss):
        return torch.full((len(P.candidates),), 42.0)

    Q = kinds(problem, 0)["conditional"]
    for mine in (Half(problem.candidates), Quarter(problem.candidates)):
        assert diversity(mine, Q, LOSSES["overlap"]).tolist() == [42.0] * 4
        assert diversity(Q, mine, LOSSES["overlap"]).tolist() != [42.0] * 4


# ---- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_beta_outside_the_open_interval_is_refused(problem, beta):
    P = kinds(problem, 0)["delta"]
    with pytest.raises(ValueError, match=r"beta must lie in \(0, 1\), but it is"):
        dissimilarity(P, P, LOSSES["zero_one"], beta)


def test_distributions_over_other_candidates_are_refused(problem):
    other = kinds(random_problem(), 0)["delta"]
    with pytest.raises(ValueError, match="the same Candidates object"):
        diversity(kinds(problem, 0)["delta"], other, LOSSES["zero_one"])


def test_what_is_no_distribution_is_refused(problem):
    @dataclass
    class Alien:
        candidates: Candidates

    with pytest.raises(TypeError, match="diversity is not defined for Alien and Delta; see register_diversity"):
        diversity(Alien(problem.candidates), kinds(problem, 0)["delta"], LOSSES["zero_one"])
