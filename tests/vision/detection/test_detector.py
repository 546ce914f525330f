import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.base import clone
from torchvision.ops import box_iou

from lvmdc import DISC, ILSVM, LSVM, Candidates, ConvergenceWarning, LabelledBoxes, OverlapLoss, Supervised, ZeroOneLoss
from lvmdc.vision.detection import Detector, ground_truth_candidates
from lvmdc.vision.detection.class_problem import balanced, class_learner
from lvmdc.vision.metrics import average_precision, corloc_by_class


def planted(seed=0, n=30, n_classes=3, windows=8, noise=0.3):
    """Images whose objects stand in windows that look like their class; up to two objects of different classes an image."""
    g = torch.Generator().manual_seed(seed)
    x = noise * torch.randn(n, windows, n_classes + 2, generator=g)
    labels, image, label, place = torch.full((n, n_classes), -1), [], [], []
    for i in range(n):
        shown = torch.randperm(n_classes, generator=g)[: 1 + i % 2].tolist()
        for k, j in zip(shown, torch.randperm(windows, generator=g).tolist(), strict=False):
            x[i, j, k] += 2.0
            labels[i, k] = 1
            image.append(i)
            label.append(k)
            place.append(j)
    left = torch.arange(windows) * 8.0
    boxes = torch.stack([left, torch.zeros(windows), left + 10, torch.full((windows,), 10.0)], dim=1)
    candidates = Candidates(x.reshape(n * windows, -1), [windows] * n, boxes.repeat(n, 1))
    return candidates, labels, LabelledBoxes(image, label, boxes[place])


def slacks(candidates, labels, w, p, k, miss, bias=1.0):
    """The slacks of the docstring, by loops."""
    found = []
    for i in range(len(candidates)):
        own = slice(int(candidates.offsets[i]), int(candidates.offsets[i] + candidates.counts[i]))
        score = candidates.features[own].double() @ w[:-1] + bias * w[-1]
        if labels[i, k] == 1:
            expected = (1 - box_iou(candidates.boxes[own].double(), candidates.boxes[own].double())) @ p[own].double()
            found.append(max(miss, float((score + expected).max())) - float(score.max()))
        else:
            found.append(max(0.0, 1 + float(score.max())))
    return np.array(found)


@pytest.mark.parametrize("miss", [1.0, 2.5])
def test_the_objective_of_disc_is_that_of_the_slacks_in_the_docstring(miss):
    candidates, labels, _ = planted()
    detector = Detector(DISC(OverlapLoss(), C=3.0, J=0.01, beta=0.2, init="uniform"), miss_cost=miss).fit(candidates, labels)
    for k in range(3):
        learner, used = detector.learners_[k], balanced(labels[:, k]).numpy()
        p = learner.predict_latent_proba(candidates, (labels[:, k] == 1).long())
        diversity = []
        for i in range(len(candidates)):
            own = slice(8 * i, 8 * i + 8)
            q = p[own].double()
            d = 1 - box_iou(candidates.boxes[own].double(), candidates.boxes[own].double())
            diversity.append(float(q @ d @ q) if labels[i, k] == 1 else 0.0)
        terms = (slacks(candidates, labels, detector.coef_[k], p, k, miss) - 0.2 * np.array(diversity))[used]
        norms = 0.5 * float(detector.coef_[k] @ detector.coef_[k]) + 0.005 * float(learner.theta_.square().sum())
        assert learner.objective_ == pytest.approx(norms + 3.0 * terms.mean(), abs=1e-4)


def test_with_one_candidate_per_image_it_is_the_two_class_svm():
    g = torch.Generator().manual_seed(1)
    x, labels = torch.randn(20, 3, generator=g), torch.where(torch.arange(20)[:, None] < 9, 1, -1)
    candidates = Candidates(x, [1] * 20, [[0, 0, 1, 1]] * 20)
    detector = Detector(LSVM(C=2.0, tol=1e-6, init="uniform"), miss_cost=1.0).fit(candidates, labels)
    a, y = np.hstack([x.double().numpy(), np.ones((20, 1))]), labels[:, 0].double().numpy()

    # The hinge as linear constraints on slacks: an independent quadratic program.
    def value(z):
        return 0.5 * z[:4] @ z[:4] + 2.0 * z[4:].mean()

    limits = [{"type": "ineq", "fun": lambda z: z[4:] - 1 + y * (a @ z[:4])}, {"type": "ineq", "fun": lambda z: z[4:]}]
    best = minimize(value, np.concatenate([np.zeros(4), np.ones(20)]), constraints=limits, method="SLSQP", options={"maxiter": 500})
    assert detector.learners_[0].objective_ == pytest.approx(best.fun, abs=1e-3)


@pytest.mark.parametrize("method", [DISC, LSVM, ILSVM])
def test_planted_objects_are_found_from_labels_alone(method):
    candidates, labels, _ = planted()
    detector = Detector(method(OverlapLoss(), C=10.0, n_init=5)).fit(candidates, labels)
    test, test_labels, test_truth = planted(seed=5)
    assert float(corloc_by_class(detector.locate(test, test_labels), test_truth, 3).mean()) > 0.9
    assert float(average_precision(detector.predict(test), test_truth, 3).mean()) > 0.9


def test_what_is_predicted_is_what_suppression_leaves_of_all_candidates():
    candidates, labels, _ = planted()
    detector = Detector(LSVM(OverlapLoss(), C=1.0, init="uniform"), overlap=0.1, min_score=0.2, max_boxes=2).fit(candidates, labels)
    scores, found = detector.probabilities(candidates), detector.predict(candidates)
    assert float(found.score.min()) >= 0.2
    for i in range(5):
        for k in range(3):
            kept = []
            for j in scores[8 * i : 8 * i + 8, k].argsort(descending=True).tolist():
                box = candidates.boxes[8 * i + j]
                if float(scores[8 * i + j, k]) >= 0.2 and all(float(box_iou(box[None], b[None])) <= 0.1 for b in kept):
                    kept.append(box)
            own = found.of_image(i).of_label(k)
            assert own.box.tolist() == [b.tolist() for b in kept[:2]]
    everything = clone(detector).set_params(min_score=0.0, max_boxes=None, overlap=1.0).fit(candidates, labels).predict(candidates)
    assert len(everything) == 30 * 8 * 3


def test_an_unknown_label_leaves_its_image_out():
    candidates, labels, _ = planted()
    unknown = labels.clone()
    unknown[::3, 0] = 0
    one = Detector(LSVM(C=1.0, init="uniform")).fit(candidates, unknown)
    kept = (unknown[:, 0] != 0).nonzero().flatten()
    other = Detector(LSVM(C=1.0, init="uniform")).fit(candidates.subset(kept), labels[kept])
    assert torch.allclose(one.coef_[0], other.coef_[0])
    assert not torch.allclose(one.coef_[1], other.coef_[1])


def test_ground_truth_candidates_make_it_fully_supervised():
    candidates, labels, truth = planted(noise=0.8)
    h = ground_truth_candidates(candidates, truth, 3)
    assert torch.equal(h >= 0, labels == 1)
    trained = Detector(LSVM(OverlapLoss(), C=10.0)).fit(candidates, labels, h)
    y = (labels[:, 0] == 1).long()
    alone = class_learner(trained.learner, miss_cost=2.0)
    supervised = Supervised(**{k: v for k, v in alone.get_params(deep=False).items()})
    used = balanced(labels[:, 0])
    supervised.fit(candidates.subset(used), y[used], torch.where(y == 1, h[:, 0], 0)[used])
    assert trained.learners_[0].objective_ == pytest.approx(supervised.objective_, rel=1e-3)


def test_images_without_a_class_are_repeated_until_they_are_as_many():
    for there in (1, 4, 5, 6, 9):
        column = torch.tensor([1] * there + [0] + [-1] * (10 - there))
        used = balanced(column)
        assert int((column[used] == 1).sum()) == there
        assert int((column[used] == -1).sum()) == max(there, 10 - there)
        assert not bool((column[used] == 0).any())
        times = torch.bincount(used, minlength=11)[there + 1 :]
        assert int(times.max() - times.min()) <= 1


def test_a_class_in_most_images_is_found_all_the_same():
    candidates, labels, truth = planted(n=60, n_classes=2)
    assert float((labels == 1).float().mean()) > 0.6
    detector = Detector(DISC(OverlapLoss(), C=10.0)).fit(candidates, labels)
    assert float(corloc_by_class(detector.locate(candidates, labels), truth, 2).mean()) > 0.9


def test_a_class_that_learned_nothing_is_named():
    candidates, labels, _ = planted()
    with pytest.warns(ConvergenceWarning, match=r"class 2 learned nothing, w = 0: try miss_cost above 1"):
        Detector(LSVM(ZeroOneLoss(), C=10.0, init="uniform"), start="learner", miss_cost=1.0).fit(candidates, labels)


def test_balanced_misses_cost_as_many_as_there_are_images_without_the_class():
    candidates, labels, _ = planted()
    detector = Detector(LSVM(C=1.0, init="uniform"), miss_cost="balanced").fit(candidates, labels)
    there = int((labels[:, 0] == 1).sum())
    assert detector.learners_[0].loss.cost[1][0] == pytest.approx(max(2.0, 2.0 * (30 - there) / there))


def test_a_state_brings_back_what_was_learned_and_its_own_shape_alone():
    candidates, labels, _ = planted()
    detector = Detector(LSVM(C=1.0, init="uniform")).fit(candidates, labels)
    other = Detector()
    other.load_state_dict(detector.state_dict())
    assert torch.equal(other.scores(candidates), detector.scores(candidates))
    assert other.history_ == detector.history_
    assert torch.equal(other.probabilities(candidates), detector.probabilities(candidates))
    with pytest.raises(ValueError, match="must say how scores become probabilities"):
        other.load_state_dict({name: part for name, part in detector.state_dict().items() if name != "calibration"})
    begun = Detector()
    begun.begin(candidates, labels[:, :2])
    with pytest.raises(ValueError, match=r"weights of shape \(3, 6\), but the data ask for \(2, 6\)"):
        begun.load_state_dict(detector.state_dict())


def test_what_does_not_fit_is_refused():
    candidates, labels, _ = planted()
    with pytest.raises(ValueError, match=r"labels must have shape \(30, K\)"):
        Detector().fit(candidates, labels[:5])
    with pytest.raises(ValueError, match="an image that lacks class 1"):
        Detector().fit(candidates, torch.ones_like(labels).index_fill(1, torch.tensor([0]), -1).index_fill(0, torch.tensor([0]), 1))
    with pytest.raises(ValueError, match=r"candidates\.boxes is None"):
        Detector().fit(Candidates(candidates.features, candidates.counts), labels)
    with pytest.raises(ValueError, match="miss_cost must be positive"):
        Detector(miss_cost=-1.0).fit(candidates, labels)
    with pytest.raises(ValueError, match="miss_cost must be positive, or 'balanced', but it is 'equal'"):
        Detector(miss_cost="equal").fit(candidates, labels)
    with pytest.raises(ValueError, match="start must be contrast or learner, but it is 'central'"):
        Detector(start="central").fit(candidates, labels)
    with pytest.raises(ValueError, match="calibration must be 0, or parts to divide the images into, at least 2, but it is 1"):
        Detector(calibration=1).fit(candidates, labels)
    with pytest.raises(ValueError, match="C must be a positive number"):
        Detector(DISC(C=-1.0)).fit(candidates, labels)
    with pytest.raises(Exception, match="call fit before it predicts"):
        Detector().predict(candidates)
    detector = Detector(LSVM(C=1.0, init="uniform")).fit(candidates, labels)
    with pytest.raises(ValueError, match="candidates must have 5 features, as in fit, but they have 1"):
        detector.predict(Candidates(torch.zeros(1, 1), [1], [[0, 0, 1, 1]]))
    with pytest.raises(ValueError, match="labels must have 3 classes, as in fit"):
        detector.locate(candidates, labels[:, :2])
