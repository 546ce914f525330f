import pytest
import torch
from PIL import Image
from torchvision.ops import box_iou

from lvmdc.vision.datasets import stick_actions
from lvmdc.vision.proposals import JitteredBoxes

CANVAS = Image.new("RGB", (128, 128))
OBJECTS = {"a": [[10.0, 20, 40, 90], [60, 30, 80, 100]], "b": [[10.0, 20, 40, 90], [60, 30, 80, 100]], "empty": torch.zeros(0, 4)}


def test_boxes_follow_from_name_and_seed_alone():
    one, two = JitteredBoxes(OBJECTS), JitteredBoxes(OBJECTS)
    assert torch.equal(one.boxes(CANVAS, "a"), two.boxes(CANVAS, "a"))
    assert torch.equal(one.boxes(CANVAS, "a"), one.boxes(CANVAS, "a"))
    assert not torch.equal(one.boxes(CANVAS, "a"), one.boxes(CANVAS, "b"))
    assert not torch.equal(one.boxes(CANVAS, "a"), JitteredBoxes(OBJECTS, seed=1).boxes(CANVAS, "a"))


def test_every_object_is_reported_and_the_rest_is_upright_and_inside():
    for name in ("a", "b", "empty"):
        boxes = JitteredBoxes(OBJECTS).boxes(CANVAS, name)
        assert boxes.shape == (20, 4)
        assert boxes.dtype == torch.float32
        assert bool((boxes >= 0).all())
        assert bool((boxes <= 128).all())
        side = boxes[:, 2:] - boxes[:, :2]
        assert bool((side > 1).all())
        assert bool((side[:, 0] < side[:, 1]).all())
        overlap = box_iou(torch.as_tensor(OBJECTS[name]), boxes)
        assert ((overlap > 0.6).sum(dim=1) >= 3).all()


def test_without_jitter_the_reports_are_the_objects():
    boxes = JitteredBoxes(OBJECTS, count=2, per_object=1, jitter=0.0).boxes(CANVAS, "a")
    assert sorted(boxes.tolist()) == OBJECTS["a"]


def test_all_objects_are_reported_even_beyond_the_count():
    assert len(JitteredBoxes(OBJECTS, count=1).boxes(CANVAS, "a")) == 6


def test_settings_change_with_what_is_known_of_the_objects():
    moved = OBJECTS | {"b": [[11.0, 20, 40, 90]]}
    assert JitteredBoxes(OBJECTS).settings() != JitteredBoxes(moved).settings()
    assert JitteredBoxes(OBJECTS).settings() == JitteredBoxes(dict(reversed(OBJECTS.items()))).settings()


def test_an_image_set_provides_its_objects():
    images = stick_actions(per_class=1)
    assert len(JitteredBoxes.around(images, count=12).boxes(images.image(3), images.names[3])) == 12
    images.objects = None
    with pytest.raises(ValueError, match=r"images\.objects is None"):
        JitteredBoxes.around(images)


def test_an_image_without_objects_is_refused_by_name():
    with pytest.raises(KeyError, match="none for 'c'"):
        JitteredBoxes(OBJECTS).boxes(CANVAS, "c")


@pytest.mark.parametrize(
    "changed", [{"count": 0}, {"per_object": 0}, {"jitter": -0.1}, {"jitter": 0.5}, {"height": (0.5, 0.4)}, {"aspect": (0, 1)}]
)
def test_settings_out_of_range_are_refused_by_name(changed):
    with pytest.raises(ValueError, match=next(iter(changed))):
        JitteredBoxes(OBJECTS, **changed)
