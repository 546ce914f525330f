import numpy as np
import pytest
from learners.problems import problem
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score

from lvmdc import DISC, ILSVM, LSVM, OverlapLoss, Supervised, ZeroOneLoss


@pytest.mark.parametrize("learner", [DISC, ILSVM, LSVM, Supervised])
def test_parameters_are_stored_got_set_and_cloned(learner):
    loss = OverlapLoss()
    model = learner(loss=loss, C=3.0, seed=4)
    assert model.get_params()["loss"] is loss
    assert model.set_params(C=7.0).C == 7.0
    copy = clone(model)
    assert (copy.C, copy.seed) == (7.0, 4)
    assert isinstance(copy.loss, OverlapLoss)
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(gamma=1.0)


def test_a_clone_of_a_fitted_learner_is_not_fitted():
    p = problem(0)
    model = clone(DISC(C=2.0).fit(p.candidates, p.y))
    assert not hasattr(model, "coef_")
    assert repr(model) == "DISC(C=2.0)"


@pytest.mark.parametrize("learner", [DISC, LSVM])
def test_grid_search_takes_candidates_as_x(learner):
    p = problem(1, n=30, d=5, signal=3)
    search = GridSearchCV(learner(seed=1), {"C": np.array([1, 10])}, cv=3).fit(p.candidates, p.y.numpy())
    assert search.best_params_["C"] in (1, 10)
    assert search.best_score_ > 0.4
    assert search.predict(p.candidates)[0].shape == (30,)


def test_grid_search_hands_h_to_fit():
    p = problem(1, n=30, d=5, signal=3)
    search = GridSearchCV(Supervised(ZeroOneLoss()), {"C": [0.1, 10.0]}, cv=3, error_score="raise")
    search.fit(p.candidates, p.y.numpy(), h=p.h.numpy())
    assert search.best_estimator_.converged_
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_cross_validation_scores_each_fold():
    p = problem(2, n=30, d=5, signal=3)
    scores = cross_val_score(LSVM(C=10.0), p.candidates, p.y.numpy(), cv=3, error_score="raise")
    assert scores.shape == (3,)
    for score, (train, test) in zip(scores, StratifiedKFold(3).split(np.zeros(30), p.y.numpy()), strict=True):
        model = LSVM(C=10.0).fit(p.candidates.subset(train), p.y[train])
        assert score == model.score(p.candidates.subset(test), p.y[test])
