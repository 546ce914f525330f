import pytest
import torch

from lvmdc import LabelledBoxes

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
