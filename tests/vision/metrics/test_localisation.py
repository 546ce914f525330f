import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score
from torchvision.ops import box_iou

from lvmdc.candidates import Candidates
from lvmdc.losses import OverlapLoss, ZeroOneLoss
from lvmdc.vision import metrics
from lvmdc.vision.metrics import true_candidate


@pytest.fixture
def problem():
    """Candidates of 30 samples, a prediction and true boxes; and each sample's overlaps, by torchvision."""
    generator = torch.Generator().manual_seed(0)
    counts = torch.randint(1, 9, (30,), generator=generator)

    def boxes(n):
        corner = 10 * torch.rand(n, 2, generator=generator)
        return torch.cat([corner, corner + 10 + 10 * torch.rand(n, 2, generator=generator)], dim=1)

    candidates = Candidates(torch.zeros(int(counts.sum()), 1), counts, boxes(int(counts.sum())))
    truth = boxes(30)
    h = (counts * torch.rand(30, generator=generator)).long()
    every = [box_iou(own, truth[i : i + 1])[:, 0] for i, own in enumerate(candidates.boxes.split(counts.tolist()))]
    return candidates, h, truth, every


def test_overlaps_are_those_of_torchvision(problem):
    candidates, h, truth, every = problem
    expected = torch.stack([e[k] for e, k in zip(every, h, strict=True)])
    assert torch.allclose(metrics.overlaps(candidates, h, truth), expected)
    assert metrics.mean_overlap(candidates, h, truth) == pytest.approx(float(expected.mean()))


@pytest.mark.parametrize("iou", [0.3, 0.5, 0.7])
def test_corloc_counts_the_predictions_that_overlap_enough(problem, iou):
    candidates, h, truth, every = problem
    hits = sum(float(e[k]) >= iou for e, k in zip(every, h, strict=True))
    assert metrics.corloc(candidates, h, truth, iou) == pytest.approx(hits / 30)


@pytest.mark.parametrize("iou", [0.3, 0.5, 0.7])
def test_recall_counts_the_samples_with_any_good_candidate_and_bounds_corloc(problem, iou):
    candidates, h, truth, every = problem
    assert metrics.recall(candidates, truth, iou) == pytest.approx(sum(float(e.max()) >= iou for e in every) / 30)
    assert metrics.recall(candidates, truth, iou) >= metrics.corloc(candidates, h, truth, iou)


def test_an_overlap_of_just_the_threshold_counts():
    candidates = Candidates(torch.zeros(1, 1), [1], [[0, 0, 2, 2]])
    assert metrics.corloc(candidates, [0], [[0, 0, 2, 1]]) == 1.0


def test_what_is_missing_is_named():
    bare = Candidates(torch.zeros(1, 1), [1])
    with pytest.raises(ValueError, match=r"candidates\.boxes is None"):
        metrics.corloc(bare, [0], [[0, 0, 1, 1]])
    with pytest.raises(ValueError, match="truth_boxes must have shape"):
        metrics.recall(Candidates(torch.zeros(1, 1), [1], [[0, 0, 1, 1]]), [[0, 0, 1, 1]] * 2)


def test_class_error_is_one_minus_accuracy():
    rng = np.random.default_rng(0)
    y, y_hat = rng.integers(0, 3, (2, 57))
    assert metrics.class_error(y, torch.from_numpy(y_hat)) == pytest.approx(1 - accuracy_score(y, y_hat))


def test_shapes_that_differ_are_refused():
    with pytest.raises(ValueError, match=r"y and y_hat must have one shape"):
        metrics.class_error([0, 1], [0])


CANDIDATES = Candidates(torch.zeros(5, 1), [2, 3], boxes=[[0, 0, 4, 4], [2, 0, 6, 4], [0, 0, 3, 3], [1, 1, 5, 5], [0, 2, 4, 4]])


def test_the_zero_one_loss_is_the_share_of_wrong_pairs():
    assert metrics.test_loss(ZeroOneLoss(), CANDIDATES, y=[1, 0], h=[0, 2], y_hat=[1, 0], h_hat=[0, 1]) == 0.5
    assert metrics.test_loss(ZeroOneLoss(), CANDIDATES, y=[1, 0], h=[0, 2], y_hat=[0, 0], h_hat=[0, 2]) == 0.5
    assert metrics.test_loss(ZeroOneLoss(), CANDIDATES, y=[1, 0], h=[0, 2], y_hat=[1, 0], h_hat=[0, 2]) == 0.0


def test_the_overlap_loss_is_one_minus_overlap_where_classes_agree():
    boxes = CANDIDATES.boxes
    expected = (1 - float(box_iou(boxes[:1], boxes[1:2])) + 1) / 2  # the second sample's class is wrong
    assert metrics.test_loss(OverlapLoss(), CANDIDATES, y=[1, 0], h=[0, 2], y_hat=[1, 1], h_hat=[1, 2]) == pytest.approx(expected)


def random_boxes(n, generator):
    corner = 50 * torch.rand(n, 2, generator=generator)
    return torch.cat([corner, corner + 1 + 30 * torch.rand(n, 2, generator=generator)], dim=1)


def test_the_true_candidate_is_the_best_of_its_own_sample():
    generator = torch.Generator().manual_seed(0)
    counts = torch.tensor([3, 1, 12, 7])
    candidates = Candidates(torch.zeros(23, 2), counts, random_boxes(23, generator))
    truth = random_boxes(4, generator)
    h, overlap = true_candidate(candidates, truth)
    for i, own in enumerate(candidates.boxes.split(counts.tolist())):
        every = box_iou(own, truth[i : i + 1])[:, 0]
        assert int(h[i]) == int(every.argmax())
        assert torch.isclose(overlap[i], every.max())


def test_boxes_are_asked_for():
    with pytest.raises(ValueError, match=r"candidates\.boxes is None"):
        true_candidate(Candidates(torch.zeros(2, 1), [2]), torch.zeros(1, 4))
    with pytest.raises(ValueError, match=r"truth_boxes must have shape \(1, 4\)"):
        true_candidate(Candidates(torch.zeros(1, 1), [1], [[0, 0, 1, 1]]), torch.zeros(2, 4))
