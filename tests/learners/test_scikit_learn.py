import warnings

import numpy as np
import pytest
import torch
from learners.problems import problem
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score

import lvmdc
from lvmdc import DISC, EM, ILSVM, LSVM, M3E, Candidates, OverlapLoss, SoftDISC, Supervised, ZeroOneLoss
from lvmdc.vision.detection import Detector


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


def test_parameters_of_parameters_are_got_set_and_cloned():
    detector = Detector(LSVM(C=2.0)).set_params(learner__C=5.0, overlap=0.5)
    assert detector.get_params()["learner__C"] == 5.0
    assert "learner__C" not in detector.get_params(deep=False)
    copy = clone(detector)
    assert copy.learner is not detector.learner
    assert repr(copy) == "Detector(learner=LSVM(C=5.0), overlap=0.5)"
    with pytest.raises(ValueError, match="Invalid parameter 'gamma' for LSVM"):
        detector.set_params(learner__gamma=1.0)


def test_scikit_learn_knows_learners_as_classifiers():
    assert is_classifier(LSVM())
    assert not is_classifier(Detector())


def test_the_convergence_warning_is_that_of_scikit_learn():
    assert lvmdc.ConvergenceWarning is lvmdc.learners.ConvergenceWarning is ConvergenceWarning


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


@pytest.mark.parametrize(("old", "new"), [("full", "exact"), ("strict", "inexact")])
@pytest.mark.parametrize("learner", [LSVM, DISC])
def test_the_names_of_cccp_in_version_0_1_still_work_with_a_warning(learner, old, new):
    p = problem(1, n=10, signal=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copy = clone(learner(C=2.0, cccp=old))  # a parameter is stored as it is given
    assert copy.get_params()["cccp"] == old
    with pytest.warns(FutureWarning, match=f"cccp='{old}' is now cccp='{new}'"):
        model = copy.fit(p.candidates, p.y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        today = learner(C=2.0, cccp=new).fit(p.candidates, p.y)
    assert torch.equal(model.coef_, today.coef_)
    assert isinstance(model._training.cccp, type(today._training.cccp))


def test_learners_say_what_they_need_and_can():
    def facts(model):
        return (model.uses_known_h, model.supports_ranks, model.supports_batches, model.has_theta, model.learns_theta)

    assert facts(DISC()) == (False, True, True, True, True)
    assert facts(DISC(conditional="uniform")) == (False, True, True, True, False)
    assert facts(SoftDISC()) == (False, False, True, True, True)
    assert facts(LSVM()) == (False, True, True, False, False)
    assert facts(Supervised()) == (True, True, True, False, False)
    assert facts(ILSVM()) == (False, True, False, False, False)
    assert facts(EM()) == facts(M3E()) == (False, False, False, False, False)
    assert SoftDISC().temperature == 0.1
    assert all(model.temperature is None for model in (DISC(), LSVM(), EM()))
    assert DISC(anneal=1.0).needs_outer_iterations
    assert DISC(theta_solver="ssd").needs_outer_iterations
    assert not any(model.needs_outer_iterations for model in (DISC(), LSVM(), SoftDISC()))


def test_classes_are_indices_and_other_labels_are_refused_with_the_remedy():
    p = problem(0)
    assert LSVM().fit(p.candidates, p.y).classes_.tolist() == list(range(p.n_classes))
    with pytest.raises(TypeError, match=r"y must hold class indices from 0 .* np\.unique\(labels, return_inverse=True\)"):
        LSVM().fit(p.candidates, np.array(["a", "b", "c"])[p.y])


def test_a_list_of_arrays_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"join it, with counts=\[len\(x\) for x in features\]"):
        Candidates([np.zeros((2, 3)), np.zeros((1, 3))], [2, 1])
