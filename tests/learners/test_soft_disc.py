"""SoftDISC as a learner: it descends, resumes, and predicts what DISC does where that is plain."""

import copy
import itertools

import pytest
import torch
from learners.problems import problem

from lvmdc import DISC, SoftDISC, ZeroOneLoss

SETTINGS = {"C": 30.0, "J": 0.01, "seed": 1}


def test_every_outer_iteration_lowers_the_objective_that_its_terms_make():
    p = problem(1, n=12, signal=3)
    model = SoftDISC(tol=1e-5, **SETTINGS).fit(p.candidates, p.y)
    values = [row["objective"] for row in model.history_]
    assert all(b <= a + 1e-9 for a, b in itertools.pairwise(values[1:]))
    last = model.history_[-1]
    assert last["objective"] == pytest.approx(last["w_norm"] + last["theta_norm"] + 30.0 * (last["slack"] - 0.5 * last["diversity"]))
    assert model.converged_


def test_it_learns_what_disc_learns_where_one_candidate_tells_the_class():
    p = problem(1, n=12, signal=6)
    soft, hard = (kind(**SETTINGS).fit(p.candidates, p.y) for kind in (SoftDISC, DISC))
    assert torch.equal(soft.predict(p.candidates)[0], hard.predict(p.candidates)[0])
    assert float((soft.predict(p.candidates)[0] == p.y).double().mean()) == 1.0


def test_what_is_known_of_h_is_kept():
    p = problem(1, n=8, signal=3)
    h = torch.where(torch.arange(8) % 2 == 0, 0, -1)
    model = SoftDISC(**SETTINGS).fit(p.candidates, p.y, h=h)
    assert bool((model._training.p[p.candidates.offsets[h == 0]] == 1).all())


def test_a_resumed_learner_ends_where_an_unbroken_one_does():
    p = problem(1, n=10, signal=3)
    whole, broken = (SoftDISC(**SETTINGS) for _ in range(2))
    for model in (whole, broken):
        model.begin(p.candidates, p.y)
    for _ in range(4):
        whole.step()
    for _ in range(2):
        broken.step()
    state, resumed = copy.deepcopy(broken.state_dict()), SoftDISC(**SETTINGS)
    resumed.begin(p.candidates, p.y)
    resumed.load_state_dict(state)
    for _ in range(2):
        resumed.step()
    assert [r["objective"] for r in resumed.history_] == pytest.approx([r["objective"] for r in whole.history_])
    torch.testing.assert_close(resumed.coef_, whole.coef_)


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
def test_a_temperature_that_is_none_is_refused(temperature):
    p = problem(1)
    with pytest.raises(ValueError, match="temperature must be a positive number"):
        SoftDISC(ZeroOneLoss(), temperature=temperature).fit(p.candidates, p.y)
