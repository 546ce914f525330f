"""What EM and M3E share with the other learners: starts, steps, stops, records, resuming."""

import math
import warnings

import numpy as np
import pytest
import torch
from learners.problems import problem, random_h
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from lvmdc import EM, M3E, Candidates, ConvergenceWarning, OverlapLoss

KEYS = {"iteration", "objective", "w_norm", "loss", "error", "entropy", "decrease", "gap", "passes", "seconds"}
OWN = {EM: {"nll", "gradient"}, M3E: {"slack"}}
LEARNERS = [EM, M3E]


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_history_has_a_row_per_outer_iteration(learner):
    p = problem(0, n=12, signal=3)
    model = learner(C=3.0).fit(p.candidates, p.y)
    assert len(model.history_) == model.n_iter_
    assert model.converged_
    assert all(row.keys() == KEYS | OWN[learner] and all(np.isfinite(list(row.values()))) for row in model.history_)
    passes = [row["passes"] for row in model.history_]
    assert passes == sorted(passes)
    assert passes[0] > 0
    assert model.objective_ == model.history_[-1]["objective"]
    assert model.history_[-1]["gap"] <= 1e-3 * 3.0


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_seed_means_one_result_and_another_seed_another(learner):
    p = problem(1, n=8, most=6)
    one, same, other = (learner(C=3.0, seed=s, init="random").fit(p.candidates, p.y) for s in (0, 0, 1))
    assert torch.equal(one.coef_, same.coef_)
    assert [r["objective"] for r in one.history_] == [r["objective"] for r in same.history_]
    assert not torch.equal(one.coef_, other.coef_)


@pytest.mark.parametrize("learner", LEARNERS)
def test_of_several_starts_the_lowest_is_kept(learner):
    p = problem(2, n=10, most=6)
    single = [learner(C=1.0, seed=s).fit(p.candidates, p.y) for s in range(3, 6)]
    best = min(single, key=lambda m: m.objective_)
    many = learner(C=1.0, seed=3, n_init=3).fit(p.candidates, p.y)
    assert many.objective_ == best.objective_
    assert torch.equal(many.coef_, best.coef_)
    assert torch.equal(many.predict_latent_proba(p.candidates, p.y), best.predict_latent_proba(p.candidates, p.y))


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("init", ["central", "random", "uniform", "given"])
def test_every_start_is_the_first_posterior_and_leads_to_a_fit(learner, init):
    p = problem(3, n=9, signal=4)
    given = random_h(p, 0) if init == "given" else None
    model = learner(C=3.0, init=init)
    model.begin(p.candidates, p.y, h_init=given)
    start = model._training.start
    torch.testing.assert_close(model._training.p, start)
    if given is not None:
        assert torch.equal(start.nonzero().flatten(), p.candidates.offsets + given)
    model.fit(p.candidates, p.y, h_init=given)
    assert model.converged_
    assert model.history_[-1]["error"] <= 0.35


def test_the_start_matters():
    p = problem(3, n=12, most=6, signal=1)
    for learner in LEARNERS:
        first = []
        for seed in (0, 1):
            model = learner(C=10.0, init="given")
            model.begin(p.candidates, p.y, h_init=random_h(p, seed))
            first.append(model.step()["objective"])
        assert first[0] != pytest.approx(first[1], abs=1e-4)


@pytest.mark.parametrize(
    ("learner", "settings", "dtype"),
    [(EM, {}, torch.float16), (EM, {}, torch.float64), (M3E, {"alpha": 1.0}, torch.float64), (M3E, {"alpha": math.inf}, torch.float32)],
)
def test_a_resumed_training_ends_in_the_numbers_of_an_unbroken_one(learner, settings, dtype):
    p = problem(5, n=8, most=5, signal=2, dtype=dtype)

    def stepped(steps, state=None):
        model = learner(C=2.0, **settings)
        model.begin(p.candidates, p.y)
        if state is not None:
            model.load_state_dict(state)
        for _ in range(steps):
            model.step()
        return model

    unbroken = stepped(4)
    for kept in (1, 2):
        resumed = stepped(4 - kept, stepped(kept).state_dict())
        assert torch.equal(resumed.coef_, unbroken.coef_)
        without = [{k: v for k, v in row.items() if k != "seconds"} for row in resumed.history_]
        assert without == [{k: v for k, v in row.items() if k != "seconds"} for row in unbroken.history_]
        assert resumed.converged_ == unbroken.converged_


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_state_is_for_its_own_samples_and_learner_and_predicts_without_them(learner):
    p, other = problem(5, n=10, most=5), problem(5, n=9, most=5)
    model = learner(C=3.0).fit(p.candidates, p.y)
    state = model.state_dict()
    alone = learner(C=3.0)
    alone.load_state_dict(state)
    for one, two in zip(alone.predict(p.candidates), model.predict(p.candidates), strict=True):
        assert torch.equal(one, two)
    assert torch.equal(alone.predict_latent_proba(p.candidates, p.y), model.predict_latent_proba(p.candidates, p.y))
    begun = learner(C=3.0)
    begun.begin(other.candidates, other.y)
    with pytest.raises(ValueError, match="the state was learned from 10 samples, but there are 9"):
        begun.load_state_dict(state)
    wrong = M3E() if learner is EM else EM()
    with pytest.raises(ValueError, match=f"the state is that of {learner.__name__}, but this is {type(wrong).__name__}"):
        wrong.load_state_dict(state)


@pytest.mark.parametrize("learner", LEARNERS)
def test_no_convergence_is_said_with_its_gap(learner):
    p = problem(6, n=14, most=6, signal=2)
    with pytest.warns(ConvergenceWarning, match=rf"{learner.__name__} stopped at max_iter=2 .*duality gap"):
        model = learner(C=10.0, tol=1e-7, max_iter=2).fit(p.candidates, p.y)
    assert not model.converged_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner(C=1.0).fit(p.candidates, p.y)


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_progress_bar_is_shown_only_if_asked_for(learner, capsys):
    p = problem(0)
    learner(C=1.0, verbose=True, n_init=2).fit(p.candidates, p.y)
    assert f"{learner.__name__}, start 2 of 2" in capsys.readouterr().err
    learner(C=1.0).fit(p.candidates, p.y)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("C", [1e-6, 1e-3, 1e3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_smallest_and_largest_c_end(learner, C, dtype):
    p = problem(7, n=8, most=4, dtype=dtype)
    model = learner(OverlapLoss(), C=C).fit(p.candidates, p.y)
    assert model.converged_
    assert model.history_[-1]["passes"] < 3000
    assert model.history_[-1]["gap"] <= 1e-3 * C
    origin = C * (math.log(3) if learner is EM else 1.0)
    assert model.objective_ <= origin * (1 + 1e-6)


@pytest.mark.parametrize("learner", LEARNERS)
def test_features_that_are_all_zero_teach_nothing_and_break_nothing(learner):
    p = problem(0, n=10, dtype=torch.float32)
    p.candidates.features.zero_()
    model = learner(C=5.0).fit(p.candidates, p.y)
    assert float(model.coef_.abs().max()) == 0
    assert model.converged_


@pytest.mark.parametrize("learner", LEARNERS)
def test_one_sample_one_class_and_more_classes_than_seen(learner):
    one = Candidates(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), [2])
    y_hat, h_hat = learner(C=10.0).fit(one, [0]).predict(one)
    assert int(y_hat) == 0
    assert int(h_hat) in (0, 1)
    model = learner(C=10.0, n_classes=4).fit(one, [1])
    assert model.coef_.shape == (4, 2)
    assert int(model.predict(one)[0]) == 1
    assert float(model.predict_latent_proba(one, [3]).sum()) == pytest.approx(1)


@pytest.mark.parametrize("learner", LEARNERS)
def test_samples_given_twice_change_nothing(learner):
    p = problem(8, n=8, signal=3)
    twice, h = p.candidates.subset(torch.arange(8).repeat(2)), random_h(p, 0)
    one = learner(C=1.0, init="given", tol=1e-5).fit(p.candidates, p.y, h_init=h)
    two = learner(C=1.0, init="given", tol=1e-5).fit(twice, p.y.repeat(2), h_init=h.repeat(2))
    assert one.objective_ == pytest.approx(two.objective_, abs=1e-3)


@pytest.mark.parametrize("learner", LEARNERS)
def test_half_single_and_double_precision_agree(learner):
    values = []
    for dtype in (torch.float16, torch.float32, torch.float64):
        p = problem(0, n=12, dtype=dtype, signal=3)
        model = learner(C=1.0, tol=1e-4, init="given").fit(p.candidates, p.y, h_init=p.h)
        values.append(model.objective_)
        assert model.coef_.dtype == torch.float64
        assert model.predict_latent_proba(p.candidates, p.y).sum().item() == pytest.approx(12, abs=1e-4)
    assert values[0] == pytest.approx(values[2], rel=2e-2)
    assert values[1] == pytest.approx(values[2], rel=1e-3)


@pytest.mark.parametrize("learner", LEARNERS)
def test_scikit_learn_clones_it_and_searches_over_it(learner):
    p = problem(1, n=18, d=5, signal=3)
    copy = clone(learner(OverlapLoss(), C=3.0, seed=4).fit(p.candidates, p.y))
    assert (copy.C, copy.seed, hasattr(copy, "coef_")) == (3.0, 4, False)
    assert repr(learner(C=2.0)) == f"{learner.__name__}(C=2.0)"
    grid = {"C": [1]} | ({"alpha": [2.0, math.inf]} if learner is M3E else {"tol": [1e-2, 1e-1]})
    search = GridSearchCV(learner(seed=1, tol=1e-2), grid, cv=2, error_score="raise").fit(p.candidates, p.y.numpy())
    assert search.best_score_ > 0.4
    assert search.predict(p.candidates)[0].shape == (18,)
