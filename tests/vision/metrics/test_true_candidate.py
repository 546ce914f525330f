import pytest
import torch
from torchvision.ops import box_iou

from lvmdc.candidates import Candidates
from lvmdc.vision.metrics import true_candidate


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
