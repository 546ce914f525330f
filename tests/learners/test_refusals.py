"""What a learner refuses, and in which words."""

import pytest
import torch
from learners.problems import SharedWeights, problem
from sklearn.exceptions import NotFittedError

from lvmdc import DISC, EM, ILSVM, LSVM, M3E, Candidates, FunctionLoss, OverlapLoss, Supervised

LEARNERS = [DISC, EM, ILSVM, LSVM, M3E]
P = problem(0)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, 2, 0, 1, 2, 0, -1], r"y must hold class indices ≥ 0, but y\[7\] is -1"),
        ([0, 1, 2], r"y must have shape \(8,\), one class per sample, but it has shape \(3,\)"),
        ([0.5] * 8, "y must hold class indices, but it holds fractions"),
        ([float("nan")] * 8, "y must hold class indices, but it holds fractions"),
    ],
)
def test_outputs_that_are_no_classes(learner, y, message):
    with pytest.raises(ValueError, match=message):
        learner().fit(P.candidates, y)


def test_an_output_beyond_the_classes():
    with pytest.raises(ValueError, match=r"y must hold class indices in 0\.\.1, but y\[2\] is 2"):
        LSVM(n_classes=2).fit(P.candidates, P.y)
    model = LSVM().fit(P.candidates, P.y)
    with pytest.raises(ValueError, match=r"y must hold class indices in 0\.\.2, but y\[0\] is 3"):
        model.score(P.candidates, P.y + 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"C": -1.0}, "C must be a positive number, but it is -1.0"),
        ({"C": 0}, "C must be a positive number, but it is 0"),
        ({"C": float("nan")}, "C must be a positive number, but it is nan"),
        ({"C": float("inf")}, "C must be a positive number, but it is inf"),
        ({"C": "large"}, "C must be a positive number, but it is 'large'"),
        ({"tol": 0.0}, "tol must be a positive number, but it is 0.0"),
        ({"tol": -1e-3}, "tol must be a positive number, but it is -0.001"),
        ({"init": "first"}, "init must be one of likelihood, prior, central, random, uniform, given, but it is 'first'"),
        ({"init": "given"}, "init='given' needs h_init= with a candidate for every sample .* but sample 0 has none"),
        ({"max_iter": 0}, "max_iter must be at least 1, but it is 0"),
        ({"n_init": 0}, "n_init must be at least 1, but it is 0"),
        ({"memory_budget": 0}, "memory_budget must be a positive whole number of bytes, but it is 0"),
        ({"memory_budget": "2GB"}, "memory_budget must be a positive whole number of bytes, but it is 2GB"),
        ({"memory_budget": 2e9}, r"memory_budget must be a positive whole number of bytes, but it is 2000000000\.0"),
    ],
)
@pytest.mark.parametrize("learner", LEARNERS)
def test_settings_of_every_learner(learner, settings, message):
    with pytest.raises(ValueError, match=message):
        learner(**settings).fit(P.candidates, P.y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beta": 0.0}, r"beta must lie in \(0, 1\), but it is 0.0"),
        ({"beta": 1.0}, r"beta must lie in \(0, 1\), but it is 1.0"),
        ({"beta": float("nan")}, r"beta must lie in \(0, 1\), but it is nan"),
        ({"J": -0.1}, "J must be a number ≥ 0, but it is -0.1"),
        ({"anneal": -1.0}, "anneal must be a number ≥ 0, but it is -1.0"),
        ({"theta_bound": "slak"}, "theta_bound must be one of prediction, slack, but it is 'slak'"),
        ({"theta_solver": "adam"}, "theta_solver must be one of lbfgs, ssd, but it is 'adam'"),
        ({"conditional": "chain"}, "conditional must be one of log_linear, uniform, but it is 'chain'"),
        ({"J": 0.0, "theta_solver": "ssd"}, "theta_solver='ssd' .* needs J > 0"),
    ],
)
def test_settings_of_disc(settings, message):
    with pytest.raises(ValueError, match=message):
        DISC(**settings).fit(P.candidates, P.y)


@pytest.mark.parametrize("learner", LEARNERS)
def test_boxes_that_are_missing(learner):
    bare = Candidates(P.candidates.features, P.candidates.counts)
    with pytest.raises(ValueError, match=r"init='central' needs Candidates\(\.\.\., boxes=…\), but boxes is None"):
        learner(init="central").fit(bare, P.y)
    with pytest.raises(ValueError, match=r"OverlapLoss needs Candidates\(\.\.\., boxes=…\), but boxes is None"):
        learner(OverlapLoss()).fit(bare, P.y)


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_loss_that_is_not_zero_at_equal_arguments(learner):
    always = FunctionLoss(lambda y1, h1, y2, h2: torch.ones(torch.broadcast_shapes(y1.shape, h1.shape, y2.shape, h2.shape)))
    with pytest.raises(ValueError, match=r"must have Δ\(z, z\) = 0, but it is 1 for class 0, candidate 0 of sample 0"):
        learner(always).fit(P.candidates, P.y)


@pytest.mark.parametrize("learner", LEARNERS)
def test_latents_that_do_not_exist(learner):
    h = P.h.clone()
    h[3] = P.candidates.counts[3]
    with pytest.raises(ValueError, match=rf"h\[3\] must lie in 0\.\.{int(h[3]) - 1}, or be −1 where unknown, but it is {int(h[3])}"):
        learner().fit(P.candidates, P.y, h=h)
    with pytest.raises(ValueError, match=r"h\[0\] must lie in .* but it is -2"):
        learner().fit(P.candidates, P.y, h=torch.full((8,), -2))
    with pytest.raises(ValueError, match=r"h_init must have shape \(8,\)"):
        learner(init="given").fit(P.candidates, P.y, h_init=[0])
    with pytest.raises(ValueError, match="h must hold integers"):
        learner().fit(P.candidates, P.y, h=[0.0] * 8)


def test_supervised_without_h():
    with pytest.raises(ValueError, match="Supervised needs h= with the candidate of every sample, but that of sample 0 is unknown"):
        Supervised().fit(P.candidates, P.y)
    with pytest.raises(ValueError, match="but that of sample 2 is unknown"):
        Supervised().fit(P.candidates, P.y, h=torch.where(torch.arange(8) == 2, -1, P.h))


@pytest.mark.parametrize("learner", LEARNERS)
def test_other_types_than_candidates(learner):
    with pytest.raises(TypeError, match=f"Expected a Candidates object but got {type(P.candidates.features).__name__}"):
        learner().fit(P.candidates.features, P.y)
    model = learner().fit(P.candidates, P.y)
    with pytest.raises(TypeError, match="Expected a Candidates object but got ndarray"):
        model.predict(P.candidates.features.numpy())


@pytest.mark.parametrize("learner", LEARNERS)
def test_predicting_with_other_features_or_too_early(learner):
    other = Candidates(torch.zeros(3, 5), [3])
    model = learner()
    for use in (lambda: model.predict(other), lambda: model.predict_latent_proba(other, [0]), lambda: model.score(other, [0])):
        with pytest.raises(NotFittedError, match=f"this {learner.__name__} is not fitted yet: call fit before predict"):
            use()
    with pytest.raises(NotFittedError, match="call fit before objective_"):
        _ = model.objective_
    model.fit(P.candidates, P.y)
    for use in (lambda: model.predict(other), lambda: model.predict_latent_proba(other, [0]), lambda: model.score(other, [0])):
        with pytest.raises(ValueError, match="candidates must have 4 features, as in fit, but they have 5"):
            use()


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_joint_map_of_other_classes_or_that_leaves_a_sample_nothing(learner):
    with pytest.raises(ValueError, match="joint must score n_classes = 3 classes, but it scores 2"):
        learner(joint=SharedWeights(2)).fit(P.candidates, P.y)

    class Empty(SharedWeights):
        def lacks(self, candidates: Candidates) -> torch.Tensor:
            return torch.arange(3).expand(candidates.n_candidates, 3) == 1

    with pytest.raises(ValueError, match="joint must leave every sample a candidate of its class, but class 1 of sample 1 has none"):
        learner(joint=Empty(3)).fit(P.candidates, P.y)


def test_a_known_h_that_the_class_lacks():
    p = problem(0, most=4)
    i = int(((p.candidates.counts > 3) & (p.y == 1)).nonzero()[0]) if bool(((p.candidates.counts > 3) & (p.y == 1)).any()) else None
    i = i if i is not None else int((p.candidates.counts > p.y + 1).nonzero()[0])
    h = torch.full_like(p.y, -1)
    h[i] = p.y[i] + 1
    with pytest.raises(ValueError, match=rf"h\[{i}\] is candidate {int(h[i])}, which the class of sample {i} does not have"):
        LSVM(joint=SharedWeights(3)).fit(p.candidates, p.y, h=h)
