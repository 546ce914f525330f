import pytest
import torch
from torchvision.ops import box_iou

from lvmdc import LabelledBoxes
from lvmdc.vision.detection import suppressed


def random_boxes(seed, m=200):
    g = torch.Generator().manual_seed(seed)
    corner = 40 * torch.rand(m, 2, generator=g)
    box = torch.cat([corner, corner + 5 + 15 * torch.rand(m, 2, generator=g)], dim=1)
    pick = [torch.randint(0, k, (m,), generator=g) for k in (4, 3)]
    return LabelledBoxes(pick[0], pick[1], box, score=torch.rand(m, generator=g))


@pytest.mark.parametrize("overlap", [0.0, 0.3, 0.7])
def test_a_box_is_kept_if_no_better_kept_one_of_its_image_and_class_overlaps_it(overlap):
    found = random_boxes(0)
    kept = []
    for j in found.score.argsort(descending=True).tolist():
        rivals = [k for k in kept if found.image[k] == found.image[j] and found.label[k] == found.label[j]]
        if not rivals or float(box_iou(found.box[j : j + 1], found.box[rivals]).max()) <= overlap:
            kept.append(j)
    result = suppressed(found, overlap)
    assert sorted(result.score.tolist()) == sorted(found.score[kept].tolist())
    for i in range(4):
        for k in range(3):
            scores = result.of_image(i).of_label(k).score
            assert scores.tolist() == sorted(scores.tolist(), reverse=True)


def test_at_most_so_many_of_an_image_and_class_are_kept():
    result = suppressed(random_boxes(1), 0.7, max_boxes=2)
    groups = (result.image * 3 + result.label).unique(return_counts=True)[1]
    assert groups.tolist() == [2] * 12


def test_nothing_stays_nothing_and_what_is_missing_is_named():
    found = random_boxes(2)
    assert len(suppressed(found[found.label > 5])) == 0
    with pytest.raises(ValueError, match=r"found\.score is None"):
        suppressed(LabelledBoxes([0], [0], [[0, 0, 1, 1]]))
    with pytest.raises(ValueError, match="overlap must lie in"):
        suppressed(found, 1.5)
