"""Both blocks of a learner of chains against the same blocks on all labelings, listed."""

import numpy as np
import pytest
import torch
from brute import psi, random_chains
from listed import Listed
from scipy.optimize import minimize

from lvmdc.chains import ChainConditional, ChainMap, HammingLoss
from lvmdc.chains.n_slack import ChainNSlack
from lvmdc.chains.theta_block import ChainPosteriorProblem
from lvmdc.chains.w_block import ChainHinge, forbid
from lvmdc.distributions import LogLinear
from lvmdc.feature_maps import ClassBlocks
from lvmdc.losses import ExpectedLoss
from lvmdc.solvers import ImputedLatents, NSlack, PosteriorProblem, StructuredHinge

STATES = 2
MAPS = [
    {},
    {"transitions": False},
    {"window": 1, "theta_transitions": False},
    {"theta_window": 1, "transitions": False},
]


class Both:
    """One problem twice: by chains, and by a list of all labelings."""

    def __init__(self, seed=0, n_classes=2, C=5.0, phi=0, **maps):
        self.chains, self.y = random_chains(seed=seed, n_classes=n_classes, phi=phi)
        self.listed = Listed(self.chains, STATES, **maps)
        self.seen = self.chains.window(maps.get("window", 0))
        self.believed = self.chains.for_phi().window(maps.get("theta_window", 0))
        self.map = ChainMap(STATES, self.seen.n_features, maps.get("transitions", True))
        self.theta_map = ChainMap(STATES, self.believed.n_features, maps.get("theta_transitions", True))
        self.loss, self.K = HammingLoss(), n_classes
        self.hinge = ChainHinge(self.seen, self.y, self.map, n_classes, C, self.loss.class_cost)
        self.plain = StructuredHinge(self.listed.candidates, self.y, ClassBlocks(n_classes), C)
        self.bound = ExpectedLoss(self.listed.loss, self.listed.candidates, self.y, n_classes)
        g = torch.Generator().manual_seed(seed)
        self.w = torch.randn(self.hinge.size, generator=g, dtype=torch.float64)
        self.theta = torch.randn(n_classes, self.theta_map.size, generator=g, dtype=torch.float64)
        self.conditional = ChainConditional(self.theta, self.theta_map)
        self.model = LogLinear(self.theta)
        with torch.no_grad():
            self.p = self.conditional.marginals(self.believed, self.y)
            self.listed_p = self.model.log_prob(self.listed.candidates, self.y).exp()
        self.site_loss = self.loss.site_loss(self.p, self.chains.counts)
        self.table = self.bound.expected_loss(self.listed_p)

    def truth(self):
        """The same h* in either form."""
        rows = self.plain.impute(self.plain.at(self.w).scores)
        return ImputedLatents(self.hinge, rows=self.hinge.impute(self.w)), ImputedLatents(self.plain, rows=rows)


@pytest.fixture(params=range(len(MAPS)), ids=[str(m) for m in MAPS])
def both(request):
    return Both(seed=request.param, n_classes=1 + request.param, phi=3 * (request.param % 2), **MAPS[request.param])


def test_marginals_of_p_theta_are_those_of_all_labelings(both):
    assert torch.allclose(both.p, both.listed.marginals(both.listed_p, both.chains, STATES))
    assert torch.allclose(both.conditional(both.believed, both.y).marginals, both.p)


def test_entropy_of_p_theta_is_that_of_all_labelings(both):
    from lvmdc.distributions import Conditional

    exact = Conditional(both.listed.candidates, both.y, both.listed_p).entropy()
    assert torch.allclose(both.conditional.entropy(both.believed, both.y), exact)


def test_values_of_the_w_block_are_those_of_all_labelings(both):
    point, plain = both.hinge.at(both.w), both.plain.at(both.w)
    mine, theirs = both.truth()
    assert torch.allclose(mine.mean, theirs.mean)
    assert both.hinge.value(point, both.site_loss) == pytest.approx(both.plain.value(plain, both.table))
    assert both.hinge.convex_value(point, both.site_loss, mine.mean) == pytest.approx(
        both.plain.convex_value(plain, both.table, theirs.mean)
    )
    assert both.hinge.value_at_origin(both.site_loss) == pytest.approx(both.plain.value_at_origin(both.table))
    assert torch.allclose(both.hinge.slack(both.w, both.site_loss), both.plain.slack(plain.scores, both.table))


def test_the_violated_labelings_have_the_mean_psi_of_all_labelings(both):
    mine = both.hinge.mean_psi(*both.hinge.violated(both.w, both.site_loss))
    theirs = both.plain.mean_psi(*both.plain.violated(both.plain.at(both.w).scores, both.table))
    assert torch.allclose(mine, theirs)


def test_the_convex_problem_has_the_optimum_of_all_labelings(both):
    mine, theirs = both.truth()
    found = ChainNSlack(both.hinge).solve(both.site_loss, mine, both.hinge.origin(), tol=1e-6)
    exact = NSlack(both.plain).solve(both.table, theirs, both.plain.origin(), tol=1e-6)
    assert found.gap <= 1e-6
    assert found.value == pytest.approx(exact.value, abs=3e-6)


def test_labelings_that_no_plane_needs_are_forgotten(both):
    mine, _ = both.truth()
    solver = ChainNSlack(both.hinge)
    for _ in range(3):
        solver.solve(both.site_loss, mine, both.hinge.origin(), tol=1e-4)
    solver.rebase(both.site_loss, mine)
    planes = solver.planes
    assert len(both.hinge.joint) <= int(planes.count.sum()) + len(both.y)
    again = both.hinge.joint.vectors(both.chains, both.y[:0], torch.as_tensor(planes.row[planes.used]))[0]
    assert torch.allclose(again, torch.as_tensor(planes.vectors[planes.vec[planes.used]]).to(again))  # numbers still mean what they meant


@pytest.mark.parametrize("theta_bound", ["prediction", "slack"])
def test_value_and_gradient_of_the_theta_block_are_those_of_all_labelings(both, theta_bound):
    problem = ChainPosteriorProblem(both.conditional, both.believed, both.hinge, both.loss, both.w, 0.3, 0.2, theta_bound)
    known = torch.full_like(both.y, -1)
    plain = PosteriorProblem(both.model, both.bound, both.plain.at(both.w).scores, 0.3, both.hinge.C, 0.2, theta_bound, known)
    for one in (problem, plain):
        one.value().backward()
    assert float(problem.value().detach()) == pytest.approx(float(plain.value().detach()))
    assert torch.allclose(both.conditional.theta.grad, both.model.theta.grad)


@pytest.mark.parametrize("theta_bound", ["prediction", "slack"])
def test_the_gradient_of_the_theta_block_is_that_of_differences(theta_bound):
    both = Both(seed=3)
    theta = both.conditional.theta

    def value(t):
        with torch.no_grad():
            theta.copy_(t)
        return ChainPosteriorProblem(both.conditional, both.believed, both.hinge, both.loss, both.w, 0.3, 0.2, theta_bound).value()

    value(both.theta).backward()
    for k in range(0, theta.numel(), 5):
        step = torch.zeros_like(both.theta)
        step.view(-1)[k] = 1e-5
        change = (float(value(both.theta + step).detach()) - float(value(both.theta - step).detach())) / 2e-5
        assert float(theta.grad.flatten()[k]) == pytest.approx(change, abs=1e-6)


def optimum_by_slsqp(both, J, beta):
    """The value of (16) that SLSQP finds from θ = 0: over θ and slacks above the score of every listed labeling, without any kink."""
    n, shape, w = len(both.y), both.theta.shape, both.w.reshape(both.K, -1)
    phi, hamming, own, others = [], [], [], []
    for i, k in enumerate(both.y.tolist()):
        labelings = both.listed.h[i]
        phi.append(torch.stack([psi(both.believed, i, h, STATES, both.theta_map.transitions) for h in labelings]))
        differ = [[sum(a != b for a, b in zip(g, h, strict=True)) / len(g) for h in labelings] for g in labelings]
        hamming.append(torch.tensor(differ, dtype=torch.float64))
        scores = torch.stack([psi(both.seen, i, h, STATES, both.map.transitions) for h in labelings]) @ w.T
        truth = scores[:, k].max()
        own.append(scores[:, k] - truth)
        others.append(scores[:, torch.arange(both.K) != k].max() + 1 - truth)

    def posterior(z, i):
        return (phi[i] @ z[:-n].reshape(shape)[both.y[i]]).softmax(0)

    def value(z):
        z = torch.tensor(z, requires_grad=True)
        diversity = torch.stack([posterior(z, i) @ hamming[i] @ posterior(z, i) for i in range(n)])
        found = J / 2 * z[:-n] @ z[:-n] + both.hinge.C * (z[-n:] - beta * diversity).mean()
        found.backward()
        return found.item(), z.grad.numpy()

    def room(z):
        per = [z[i - n] - torch.cat([own[i] + posterior(z, i) @ hamming[i], others[i][None]]) for i in range(n)]
        return torch.cat(per)

    limits = {
        "type": "ineq",
        "fun": lambda z: room(torch.tensor(z)).numpy(),
        "jac": lambda z: torch.autograd.functional.jacobian(room, torch.tensor(z)).numpy(),
    }
    start = np.concatenate([np.zeros(both.theta.numel()), np.full(n, 10.0)])
    return minimize(value, start, jac=True, constraints=[limits], method="SLSQP", options={"maxiter": 500, "ftol": 1e-12}).fun


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "maps"), [(3, {}), (1, {"transitions": False}), (5, {"transitions": False}), (5, {"theta_window": 1})])
@pytest.mark.parametrize(("J", "tol"), [(0.01, 5e-3), (0.01, 1e-4), (0.3, 1e-4)])
def test_the_theta_block_ends_at_its_optimum_in_spite_of_kinks(seed, maps, J, tol):
    both = Both(seed=seed, **maps)
    with torch.no_grad():
        both.conditional.theta.zero_()
    problem = ChainPosteriorProblem(both.conditional, both.believed, both.hinge, both.loss, both.w, J, 0.1, "slack")
    before = float(problem.value().detach())
    gained = problem.lower(tol)
    after = float(problem.value().detach())
    assert gained == pytest.approx(before - after, abs=1e-12)
    assert after <= optimum_by_slsqp(both, J, 0.1) + tol


def test_known_sites_hold_posterior_and_imputed_labelings():
    both = Both(seed=4)
    known = torch.where(both.chains.mask, torch.tensor([1, -1, 0])[torch.arange(both.chains.longest) % 3], -1)
    fixed = forbid(known, STATES)
    p = both.conditional.marginals(both.believed, both.y, fixed)
    assert bool((p[known == 1][:, 1] == 1).all())
    agrees = torch.tensor(
        [all(k in (-1, s) for k, s in zip(known[i].tolist(), h, strict=False)) for i in range(len(both.y)) for h in both.listed.h[i]]
    )
    kept = torch.where(agrees, both.listed_p, 0)
    kept = kept / torch.cat([part.sum().expand(len(part)) for part in kept.split(both.listed.candidates.counts.tolist())])
    assert torch.allclose(p, both.listed.marginals(kept, both.chains, STATES))
    hinge = ChainHinge(both.seen, both.y, both.map, both.K, 5.0, 1.0, known)
    h = hinge.joint.h(hinge.impute(both.w))
    assert bool(((known < 0) | (h == known)).all())
    scores = both.plain.at(both.w).scores.masked_fill(~agrees[:, None], -torch.inf)
    assert torch.allclose(hinge.truth_score(both.w), both.plain.truth_score(scores))
