import pytest
import torch
from torchvision.ops import box_iou

from lvmdc import Candidates, LabelledBoxes
from lvmdc.vision.detection import ground_truth_candidates, ground_truth_objects


def crowded(seed=0, n=6, windows=12, objects=14):
    """Images with several overlapping objects of two classes, some of them difficult; the last image has none."""
    g = torch.Generator().manual_seed(seed)

    def boxes(m):
        corner = 10 * torch.rand(m, 2, generator=g)
        return torch.cat([corner, corner + 2 + 6 * torch.rand(m, 2, generator=g)], dim=1)

    counts = [windows - i for i in range(n)]
    candidates = Candidates(torch.randn(sum(counts), 3, generator=g), counts, boxes(sum(counts)))
    image, label = torch.randint(n - 1, (objects,), generator=g), torch.randint(2, (objects,), generator=g)
    return candidates, LabelledBoxes(image, label, boxes(objects), difficult=torch.rand(objects, generator=g) < 0.2)


def test_the_largest_object_of_a_class_is_taken_and_difficult_ones_are_not():
    candidates = Candidates(torch.zeros(3, 1), [3], [[0, 0, 2, 2], [4, 0, 8, 4], [10, 0, 20, 10]])
    truth = LabelledBoxes([0] * 4, [0, 0, 0, 1], [[4, 0, 8, 3], [0, 0, 2, 2], [10, 0, 20, 10], [0, 0, 2, 2]], difficult=[0, 0, 1, 1])
    assert ground_truth_candidates(candidates, truth, 2).tolist() == [[1, -1]]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("iou", [0.2, 0.5])
def test_each_object_comes_without_candidates_that_show_another_one_better(seed, iou):
    candidates, truth = crowded(seed)
    for k in range(2):
        part_of_k, image, h = ground_truth_objects(candidates, truth, k, iou)
        assert len(part_of_k) == len(image) == len(h)
        at = 0
        for i in range(len(candidates)):
            own = slice(int(candidates.offsets[i]), int(candidates.offsets[i] + candidates.counts[i]))
            x, boxes, objects = candidates.features[own], candidates.boxes[own], truth.of_label(k).of_image(i)
            easy = [j for j in range(len(objects)) if not objects.difficult[j]]
            for j in easy or [None]:
                expected, best = list(range(len(boxes))), -1
                if j is not None:
                    to = box_iou(boxes, objects.box)
                    best = int(to[:, j].argmax())
                    wrong = {c for c in expected for o in range(len(objects)) if o != j and to[c, o] >= iou and to[c, o] > to[c, j]}
                    expected = [c for c in expected if c not in wrong or c == best]
                part = part_of_k.subset([at])
                assert int(image[at]) == i
                assert torch.equal(part.features, x[expected])
                assert torch.equal(part.boxes, boxes[expected])
                assert int(h[at]) == (expected.index(best) if best >= 0 else -1)
                at += 1
        assert at == len(part_of_k)


def test_phi_and_the_prior_go_with_their_candidates_and_boxes_must_be_there():
    candidates, truth = crowded()
    phi = 2 * candidates.features[:, :1]
    both = Candidates(candidates.features, candidates.counts, candidates.boxes, phi, prior=phi[:, 0])
    part_of_k, _, _ = ground_truth_objects(both, truth, 0)
    assert torch.equal(part_of_k.prior, part_of_k.phi[:, 0])
    assert torch.equal(part_of_k.phi, 2 * part_of_k.features[:, :1])
    for function in (ground_truth_candidates, ground_truth_objects):
        with pytest.raises(ValueError, match=r"candidates\.boxes is None"):
            function(Candidates(candidates.features, candidates.counts), truth, 1)
