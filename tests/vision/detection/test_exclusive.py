"""Detection in images of one class each: one latent problem over all classes."""

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from lvmdc import DISC, EM, LSVM, Candidates, LabelledBoxes, OverlapLoss
from lvmdc.vision.detection import Detector, ExclusiveDetector


def problem(seed=0, n=24, m=5, classes=3, noise=0.3):
    """Images with m candidates side by side, one of which shows the class of the image."""
    rng = np.random.default_rng(seed)
    y = torch.arange(n) % classes
    x = noise * torch.as_tensor(rng.normal(size=(n, m, classes + 2))).float()
    h = torch.as_tensor(rng.integers(0, m, n))
    x[torch.arange(n), h, y] += 3.0
    boxes = torch.tensor([[4.0 * j, 0.0, 4.0 * j + 3, 3.0] for j in range(m)]).repeat(n, 1)
    labels = torch.full((n, classes), -1).scatter(1, y[:, None], 1)
    return Candidates(x.flatten(0, 1), [m] * n, boxes), labels, y, h


@pytest.fixture(scope="module")
def fitted():
    candidates, labels, _, _ = problem()
    return ExclusiveDetector(DISC(C=10.0)).fit(candidates, labels)


def test_the_objects_of_new_images_are_found_and_probable(fitted):
    candidates, labels, y, h = problem(seed=1)
    found = fitted.locate(candidates, labels)
    order = found.image.argsort()
    assert torch.equal(found.label[order], y)
    assert float((found.box[order, 0] == 4.0 * h).double().mean()) > 0.9
    best = fitted.predict(candidates)
    first = [int(best.of_image(i).label[best.of_image(i).score.argmax()]) for i in range(len(y))]
    assert np.mean(np.array(first) == y.numpy()) > 0.9
    assert bool(((best.score >= 0) & (best.score <= 1)).all())


def test_scores_are_margins_to_the_best_other_class(fitted):
    candidates, _, _, _ = problem(seed=2, n=4)
    scores = candidates.features.double() @ fitted.coef_[:, :-1].T
    margins = fitted.scores(candidates)
    for i in range(4):
        rows = slice(5 * i, 5 * i + 5)
        for k in range(3):
            others = max(float(scores[rows, j].max()) for j in range(3) if j != k)
            assert torch.allclose(margins[rows, k].double(), scores[rows, k] - others, atol=1e-4)


@pytest.mark.parametrize("learner", [DISC(C=10.0, loss=OverlapLoss()), LSVM(C=10.0, loss=OverlapLoss()), EM(C=10.0)])
def test_it_is_the_learner_on_all_classes_at_once(learner):
    candidates, labels, y, _ = problem()
    detector = ExclusiveDetector(learner, calibration=0).fit(candidates, labels)
    alone = detector._make(1.0).fit(candidates, y)
    assert torch.allclose(detector.coef_[:, :-1], alone.coef_.double(), atol=1e-6)
    assert detector.history_[0] == detector.history_[2]
    assert not bool(detector.coef_[:, -1].any())


def test_a_prior_decides_what_labels_leave_open():
    """Two candidates of every image look alike; the prior knows which one it is."""
    y = torch.arange(8) % 2
    x = torch.zeros(8, 2, 3)
    x[torch.arange(8), :, y] = 3.0
    x[:, 1, 2] = 1.0
    boxes = torch.tensor([[0.0, 0, 2, 2], [4.0, 0, 6, 2]]).repeat(8, 1)
    labels = torch.full((8, 2), -1).scatter(1, y[:, None], 1)
    for favoured in (0, 1):
        prior = torch.zeros(8, 2)
        prior[:, favoured] = 20.0
        c = Candidates(x.flatten(0, 1), [2] * 8, boxes, prior=prior.flatten())
        found = ExclusiveDetector(DISC(C=10.0, loss=OverlapLoss())).fit(c, labels).locate(c, labels)
        assert bool((found.box[:, 0] == 4.0 * favoured).all())


def test_ground_truth_boxes_give_the_learner_with_known_h():
    candidates, labels, y, h = problem()
    truth = LabelledBoxes(torch.arange(24), y, candidates.boxes.reshape(24, 5, 4)[torch.arange(24), h])
    detector = ExclusiveDetector(DISC(C=10.0, loss=OverlapLoss(), init="uniform"), calibration=0)
    detector.begin(candidates, labels)
    detector.fit_boxes(candidates, labels, truth)
    alone = DISC(C=10.0, loss=OverlapLoss(), init="uniform").fit(candidates, y, h)
    assert torch.allclose(detector.coef_[:, :-1], alone.coef_.double(), atol=1e-6)


def test_the_state_restores_every_score(fitted):
    candidates, labels, _, _ = problem(seed=3)
    again = ExclusiveDetector(DISC(C=10.0))
    again.load_state_dict(fitted.state_dict())
    assert torch.equal(again.probabilities(candidates), fitted.probabilities(candidates))
    assert torch.equal(again.locate(candidates, labels).box, fitted.locate(candidates, labels).box)


@pytest.mark.parametrize(("row", "what"), [([1, 1, -1], "shows 2"), ([-1, -1, -1], "shows 0"), ([1, 0, -1], "has unknown labels")])
def test_images_of_several_classes_are_for_the_other_detector(row, what):
    candidates, labels, _, _ = problem()
    labels = labels.clone()
    labels[4] = torch.tensor(row)
    with pytest.raises(ValueError, match=f"exactly one class each, but image 4 .*{what}"):
        ExclusiveDetector().fit(candidates, labels)
    assert Detector().get_params().keys() > ExclusiveDetector().get_params().keys()


def test_one_image_of_a_class_is_calibrated_by_itself():
    candidates, labels, _, _ = problem(n=7, classes=3)  # classes 1 and 2 have two images each
    detector = ExclusiveDetector(DISC(C=10.0)).fit(candidates.subset([0, 1, 2]), labels[:3])
    assert bool(detector.calibration_.isfinite().all())
    assert bool((detector.calibration_[:, 0] > 0).all())


def test_nothing_learned_is_said():
    candidates, labels, _, _ = problem()
    nothing = Candidates(torch.zeros_like(candidates.features), candidates.counts, candidates.boxes)
    with pytest.warns(ConvergenceWarning, match="nothing was learned"):
        ExclusiveDetector(DISC(C=1.0)).fit(nothing, labels)
