import pytest
import torch
from torchvision import ops

from lvmdc import LabelledBoxes
from lvmdc.boxes import box_area, box_iou, distinct, suppressed
from lvmdc.testing import random_candidates

BOX = [[0, 0, 2, 2], [1, 1, 3, 3], [0, 0, 4, 4]]


def test_images_are_renumbered_in_the_order_of_a_subset():
    boxes = LabelledBoxes([0, 2, 2], [1, 0, 1], BOX, score=[0.1, 0.2, 0.3], difficult=[True, False, False])
    part = boxes.subset([2, 1, 0])
    assert part.image.tolist() == [0, 0, 2]
    assert part.score.tolist() == pytest.approx([0.2, 0.3, 0.1])
    assert part.difficult.tolist() == [False, False, True]


@pytest.mark.parametrize(
    "index", [[0, 1, 2, 3], [3, 3, 1], [7, 0], [], torch.arange(40).flip(0)], ids=["all", "twice", "beyond", "none", "many"]
)
def test_a_subset_has_the_boxes_that_a_table_of_images_and_boxes_finds(index):
    g = torch.Generator().manual_seed(0)
    m = 200
    boxes = LabelledBoxes(
        torch.randint(40, (m,), generator=g), torch.arange(m), torch.tensor(BOX[:1]).repeat(m, 1), torch.rand(m, generator=g)
    )
    chosen = torch.as_tensor(index, dtype=torch.long)
    which, at = (boxes.image[None] == chosen[:, None]).nonzero(as_tuple=True)
    part = boxes.subset(index)
    assert torch.equal(part.image, which)
    assert torch.equal(part.label, boxes.label[at])
    assert torch.equal(part.score, boxes.score[at])


def test_a_subset_of_many_images_needs_no_table_of_them_and_boxes():
    m = 100_000  # a table would have 10^10 entries
    boxes = LabelledBoxes(torch.arange(m), torch.zeros(m, dtype=torch.long), torch.tensor(BOX[:1]).repeat(m, 1))
    assert torch.equal(boxes.subset(torch.arange(m).flip(0)).image, torch.arange(m))


def test_labels_follow_vocs_lists():
    boxes = LabelledBoxes([0, 0, 1], [0, 0, 1], BOX, difficult=[True, False, True])
    assert boxes.labels(2, 2).tolist() == [[1, -1], [-1, 0]]


def test_no_boxes_are_a_set_too():
    nothing = LabelledBoxes([], [], torch.zeros(0, 4), score=[])
    assert len(nothing) == 0
    assert nothing.labels(2, 1).tolist() == [[-1], [-1]]
    both = LabelledBoxes.concat([nothing, LabelledBoxes([0], [0], BOX[:1], score=[1.0])])
    assert len(both) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [0, 0, 0], BOX), r"image must have shape \(3,\)"),
        (([0, 1, 2], [0, -1, 0], BOX), r"label must not be negative, but label\[1\] is -1"),
        (([0.5, 1, 2], [0, 0, 0], BOX), "image must hold integers"),
        (([0], [0], [[2, 0, 2, 2]]), "x2 > x1"),
        (([0], [0], [[0, 0, 2, 2]], [float("nan")]), "score must be finite"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        LabelledBoxes(*arguments)


def test_sets_with_and_without_scores_do_not_join():
    with pytest.raises(ValueError, match="concat needs scores in all"):
        LabelledBoxes.concat([LabelledBoxes([0], [0], BOX[:1]), LabelledBoxes([0], [0], BOX[:1], score=[1.0])])


# ---- overlaps and non-maximum suppression ------------------------------------------------------------------------


def test_overlap_is_that_of_torchvision():
    boxes = random_candidates([12]).boxes
    assert torch.allclose(box_iou(boxes[:, None], boxes), ops.box_iou(boxes, boxes))
    assert torch.allclose(box_area(boxes), ops.box_area(boxes))


def test_boxes_that_only_touch_do_not_overlap():
    touching = torch.tensor([[0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 2.0, 1.0], [1.0, 1.0, 2.0, 2.0]])
    assert torch.equal(box_iou(touching[:, None], touching), torch.eye(3))


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
        if not rivals or float(ops.box_iou(found.box[j : j + 1], found.box[rivals]).max()) <= overlap:
            kept.append(j)
    result = suppressed(found, overlap)
    assert sorted(result.score.tolist()) == sorted(found.score[kept].tolist())
    for i in range(4):
        for k in range(3):
            scores = result.of_image(i).of_label(k).score
            assert scores.tolist() == sorted(scores.tolist(), reverse=True)


def test_at_most_max_boxes_per_image_and_class_are_kept():
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


def test_kept_boxes_come_in_order_and_overlap_little_and_the_others_overlap_an_earlier_one():
    corner = torch.rand(200, 2, generator=torch.Generator().manual_seed(0)) * 10
    boxes = torch.cat([corner, corner + 2 + corner.flip(0) / 5], dim=1)
    kept = distinct(boxes, 0.4, 500)
    assert kept.tolist() == sorted(kept.tolist())
    among = ops.box_iou(boxes[kept], boxes[kept]).fill_diagonal_(0)
    assert among.max() <= 0.4
    for i in set(range(200)) - set(kept.tolist()):
        assert ops.box_iou(boxes[i : i + 1], boxes[kept[kept < i]]).max() > 0.4
    assert distinct(boxes, 0.4, 7).tolist() == kept[:7].tolist()
    assert len(distinct(torch.zeros(0, 4), 0.4, 7)) == 0
