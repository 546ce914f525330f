import pytest
import torch
from torchvision.ops import box_iou

from lvmdc.candidates import Candidates
from lvmdc.vision import metrics


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
