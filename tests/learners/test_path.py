"""A sweep over C, each training from where the last one ended."""

import warnings
from dataclasses import replace

import pytest
import torch
from learners.problems import LOSSES, problem
from sklearn.exceptions import ConvergenceWarning

from lvmdc import DISC, EM, ILSVM, LSVM, M3E, LabelLoss, SoftDISC, Supervised, fit_path
from lvmdc.learners.lsvm import PATH_ROUNDS
from lvmdc.solvers.cccp import CCCP

PATH = [0.1, 1.0, 10.0]


@pytest.mark.parametrize("solver", ["n_slack", "one_slack"])
def test_where_the_problem_is_convex_a_path_ends_where_fresh_starts_do(solver):
    p = problem(3, n=12, signal=2)
    settings = {"loss": LOSSES["overlap"], "tol": 1e-6, "solver": solver}
    path = fit_path(Supervised(**settings), p.candidates, p.y, PATH, h=p.h)
    for C, found in zip(PATH, path, strict=True):
        fresh = Supervised(C=C, **settings).fit(p.candidates, p.y, h=p.h)
        assert found.C == C
        assert found.objective_ == pytest.approx(fresh.objective_, abs=3e-6 * C)
        torch.testing.assert_close(found.coef_, fresh.coef_, atol=3e-3, rtol=0)


@pytest.mark.parametrize("settings", [{}, {"solver": "one_slack"}, {"cccp": "eager"}, {"cccp": "self_paced"}], ids=str)
@pytest.mark.parametrize("learner", [DISC, LSVM, ILSVM])
def test_each_end_is_one_that_a_training_at_that_c_accepts(learner, settings):
    p = problem(1, n=12, most=6, signal=3)
    for C, found in zip(PATH, fit_path(learner(LOSSES["overlap"], **settings), p.candidates, p.y, PATH), strict=True):
        assert found.converged_
        state = found.state_dict()
        again = learner(LOSSES["overlap"], C=C, **settings)
        again.begin(p.candidates, p.y)
        again.load_state_dict(state)
        again.step()
        assert again.objective_ >= found.objective_ - C * 1e-3 - 1e-9


def test_a_path_saves_passes():
    p = problem(1, n=30, most=6, signal=3)
    path = fit_path(LSVM(LabelLoss()), p.candidates, p.y, [1.0, 2.0, 4.0, 8.0])
    fresh = [LSVM(LabelLoss(), C=C).fit(p.candidates, p.y).history_[-1]["passes"] for C in (1.0, 2.0, 4.0, 8.0)]
    assert path[-1].history_[-1]["passes"] < sum(fresh)


def test_after_another_c_w_and_the_posterior_take_turns_after_few_rounds(monkeypatch):
    p, run, one, rounds = problem(1, n=30, most=6, signal=3), CCCP.run, CCCP.round, []

    def counted(self, losses):
        rounds[-1] += 1
        return replace(one(self, losses), converged=False)  # so that nothing but the limit ends them

    monkeypatch.setattr(CCCP, "run", lambda self, *given: rounds.append(0) or run(self, *given))
    monkeypatch.setattr(CCCP, "round", counted)
    monkeypatch.setattr(DISC, "_rounds", PATH_ROUNDS + 4)
    soft, hard = (DISC(LOSSES["zero_one"], C=C, tol=1e-5) for C in (0.001, 10.0))
    soft.begin(p.candidates, p.y)
    soft.step()
    assert rounds == [PATH_ROUNDS + 4]
    hard.go_on_from(soft)
    hard.step()
    assert rounds[1:] == [PATH_ROUNDS]


@pytest.mark.slow
@pytest.mark.parametrize("learner", [DISC, LSVM, EM, M3E])
def test_of_several_starts_the_lowest_is_kept_for_each_c(learner):
    p = problem(2, n=10, most=6)
    settings = {"loss": LabelLoss()}
    single = [fit_path(learner(seed=s, **settings), p.candidates, p.y, PATH) for s in (3, 4)]
    for k, found in enumerate(fit_path(learner(seed=3, n_init=2, **settings), p.candidates, p.y, PATH)):
        assert found.objective_ == min(path[k].objective_ for path in single)
        assert found.get_params()["n_init"] == 2


@pytest.mark.parametrize("C", [[10.0, 1.0, 0.1], [1.0, 1.0], [0.1, 100.0]], ids=str)
def test_c_may_fall_stay_or_leap(C):
    p = problem(3, n=12, signal=2)
    settings = {"loss": LOSSES["overlap"], "tol": 1e-6}
    for value, found in zip(C, fit_path(Supervised(**settings), p.candidates, p.y, C, h=p.h), strict=True):
        fresh = Supervised(C=value, **settings).fit(p.candidates, p.y, h=p.h)
        assert found.objective_ == pytest.approx(fresh.objective_, abs=3e-6 * value)


@pytest.mark.parametrize("learner", [DISC, LSVM, EM, SoftDISC])
def test_what_was_learned_for_one_c_stays_when_the_path_goes_on(learner):
    p = problem(1, n=12, most=6, signal=3)
    alone = fit_path(learner(LOSSES["overlap"]), p.candidates, p.y, PATH[:1])[0]
    first, *rest = fit_path(learner(LOSSES["overlap"]), p.candidates, p.y, PATH)
    assert first.objective_ == alone.objective_
    assert [model.C for model in rest] == PATH[1:]
    torch.testing.assert_close(first.coef_, alone.coef_)
    torch.testing.assert_close(first.predict_latent_proba(p.candidates, p.y), alone.predict_latent_proba(p.candidates, p.y))
    assert first.state_dict()["converged"]
    with pytest.raises(RuntimeError, match="this training went on under another C"):
        first.step()
    with pytest.raises(RuntimeError, match="went on under another C already"):
        learner(LOSSES["overlap"]).go_on_from(first)


def test_no_c_is_refused_and_a_limit_that_ends_it_warns():
    p = problem(2, n=10, most=6)
    with pytest.raises(ValueError, match="C must have at least one value, but it is empty"):
        fit_path(LSVM(), p.candidates, p.y, [])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit_path(DISC(max_iter=1, anneal=2.0), p.candidates, p.y, [10.0])
    assert any(issubclass(w.category, ConvergenceWarning) for w in caught)
