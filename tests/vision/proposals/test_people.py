import logging
import os
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.ops import box_iou

from lvmdc.candidates import Candidates
from lvmdc.vision.datasets import ImageSet, voc_action
from lvmdc.vision.datasets.images import image_size
from lvmdc.vision.datasets.voc_annotation import read_objects
from lvmdc.vision.metrics import recall
from lvmdc.vision.proposals import PeopleBoxes, people
from lvmdc.vision.proposals.people import PLACES, detect_people

GREY = Image.new("RGB", (320, 240), (90, 90, 90))


@pytest.fixture
def seen(monkeypatch):
    """A detector that reports what the test puts in: windows and scores, in pixels of the image brought to 640."""
    reports = {"boxes": np.zeros((0, 4)), "scores": np.zeros(0)}
    monkeypatch.setattr(people, "detect_people", lambda pixels, threshold: (reports["boxes"], reports["scores"]))
    return reports


def test_without_detections_the_places_fill_up():
    boxes = PeopleBoxes(detections=0, widened=0).boxes(GREY, "a")
    assert boxes.shape == (20, 4)
    assert boxes.dtype == torch.float32
    assert boxes[0].tolist() == [64, 48, 256, 240]  # 2 2 8 10, in tenths
    assert len({tuple(box) for box in boxes.tolist()}) == 20


def test_detections_come_first_best_first_without_their_margin_and_the_best_wider(seen):
    seen["boxes"] = np.array([[100.0, 100, 200, 300], [400, 0, 500, 200], [104, 100, 204, 300]])
    seen["scores"] = np.array([0.5, 2.0, 0.4])
    boxes = PeopleBoxes(widened=1).boxes(GREY, "a")
    # 400..500 without 15 % of 100 on each side, at half the size; the third overlaps the first.
    assert boxes[0].tolist() == [207, 8, 243, 92]
    assert boxes[1].tolist() == [57, 58, 93, 142]
    assert boxes[2].tolist() == [197, 8, 253, 92]  # 35 wide, 0.3 · 35 more on each side
    assert boxes[3].tolist() == [64, 48, 256, 240]
    assert len(boxes) == 20


def test_the_order_of_the_detector_does_not_show(seen):
    rng = np.random.default_rng(0)
    corner = rng.uniform(0, 300, (40, 2))
    seen["boxes"], seen["scores"] = np.concatenate([corner, corner + np.array([60, 120])], axis=1), np.repeat([1.0, 0.0], 20)
    before = PeopleBoxes().boxes(GREY, "a")
    order = rng.permutation(40)
    seen["boxes"], seen["scores"] = seen["boxes"][order], seen["scores"][order]
    assert torch.equal(PeopleBoxes().boxes(GREY, "a"), before)


def test_the_detector_finds_an_upright_figure():
    pixels = np.full((256, 192, 3), 200, np.uint8)
    dark = (40, 40, 40)
    cv2.ellipse(pixels, (96, 62), (13, 17), 0, 0, 360, dark, -1)  # head and body
    cv2.ellipse(pixels, (96, 118), (27, 40), 0, 0, 360, dark, -1)
    for start, end, width in (
        ((75, 95), (66, 150), 11),
        ((117, 95), (126, 150), 11),
        ((88, 145), (84, 225), 16),
        ((104, 145), (108, 225), 16),
    ):
        cv2.line(pixels, start, end, dark, width)
    boxes, scores = detect_people(cv2.GaussianBlur(pixels, (0, 0), 1.5))
    assert len(boxes) == len(scores) > 0
    figure = Image.fromarray(cv2.GaussianBlur(pixels, (0, 0), 1.5))
    best = PeopleBoxes(size=256).boxes(figure, "a")[:1]
    assert box_iou(torch.tensor([[60.0, 45, 132, 234]]), best) > 0.7


@pytest.mark.parametrize("size", [(1, 1), (900, 3), (3, 900), (40, 31)])
def test_small_and_thin_images_have_boxes_of_at_least_a_pixel(size):
    boxes = PeopleBoxes(size=128).boxes(Image.new("RGB", size), "a")
    assert 1 <= len(boxes) <= 20
    assert (boxes[:, 2:] - boxes[:, :2]).min() >= 1
    assert boxes.min() >= 0
    assert (boxes <= torch.tensor([*size, *size])).all()


def test_without_places_and_detections_the_whole_image_is_the_one_box(seen):
    proposals = PeopleBoxes(places=False, widened=0)
    assert proposals.boxes(GREY, "a").tolist() == [[0, 0, 320, 240]]
    seen["boxes"], seen["scores"] = np.array([[100.0, 100, 200, 300]]), np.ones(1)
    assert proposals.boxes(GREY, "a").tolist() == [[57, 58, 93, 142]]


def test_the_true_box_is_one_more_candidate_anywhere_in_the_order(seen, caplog):
    names = [f"{i}.jpg" for i in range(30)]
    images = ImageSet([np.zeros((240, 320), np.uint8)] * 30, ["a"], [0] * 30, boxes=[[11, 12, 13.5, 14]] * 30, names=names)
    with caplog.at_level(logging.INFO, logger="lvmdc"):
        proposals = PeopleBoxes(images, include_truth=True)
        plain = PeopleBoxes(images)
    assert "the ground-truth box of each image is among its candidates, as in the paper; include_truth=false leaves it out" in caplog.text
    assert "the ground-truth box of each image is not added to its candidates" in caplog.text
    places = []
    for name in names:
        boxes = proposals.boxes(GREY, name)
        where = (boxes == torch.tensor([11, 12, 13.5, 14])).all(dim=1)
        assert where.sum() == 1
        assert torch.equal(boxes[~where], plain.boxes(GREY, name))
        places.append(int(where.nonzero()))
    assert len(set(places)) > 10
    assert proposals.boxes(GREY, names[3]).tolist() == PeopleBoxes(images, include_truth=True).boxes(GREY, names[3]).tolist()
    assert proposals.settings() != plain.settings()
    with pytest.raises(ValueError, match=r"images must have the ground-truth box of every image, but there is none for 'x\.jpg'"):
        proposals.boxes(GREY, "x.jpg")


def test_true_boxes_that_are_not_known_are_refused():
    unknown = ImageSet([np.zeros((6, 8), np.uint8)], ["a"], [0])
    for images in (None, unknown):
        with pytest.raises(
            ValueError, match=r"include_truth needs images whose ground-truth boxes are known, .*; or set include_truth=false"
        ):
            PeopleBoxes(images, include_truth=True)
    same = ImageSet([np.zeros((6, 8), np.uint8)] * 2, ["a"], [0, 0], boxes=[[0, 0, 1, 1]] * 2, names=["x", "x"])
    with pytest.raises(ValueError, match="names that differ"):
        PeopleBoxes(same, include_truth=True)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"count": 0}, r"count must lie in 1\.\.30, the number of known places, but it is 0"),
        ({"count": 31}, "but it is 31"),
        ({"widened": 6}, "0 ≤ widened ≤ detections, but they are 5 and 6"),
        ({"detections": -1, "widened": -1}, "but they are -1 and -1"),
        ({"size": 100}, "size must be at least 128 pixels, the height of the detector's window, but it is 100"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(changed, message):
    with pytest.raises(ValueError, match=message):
        PeopleBoxes(**changed)


DATA = Path(os.environ.get("LVMDC_DATA", "data")) / "VOCdevkit"


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.skipif("LVMDC_DATA" not in os.environ or not DATA.is_dir(), reason="LVMDC_DATA holds no VOCdevkit")
class TestRealImages:
    def test_places_cover_people_in_images_that_are_not_evaluated(self):
        root = DATA / "VOC2011"
        evaluated = {Path(name).stem for name in voc_action(DATA).names}
        left_out = [key for key in (root / "ImageSets" / "Action" / "trainval.txt").read_text().split() if key not in evaluated]
        seen = []
        for key in left_out:
            size = image_size(root / "JPEGImages" / f"{key}.jpg")
            seen += [
                np.array(person.box) / np.tile(size, 2) for person in read_objects(root / "Annotations" / f"{key}.xml", size, "person")
            ]
        assert (len(left_out), len(seen)) == (408, 600)
        assert cover(np.array(seen), len(PLACES)) == list(PLACES)

    def test_most_people_are_found_among_twenty_boxes(self):
        images = voc_action(DATA).subset(range(0, 2016, 126))
        boxes = [PeopleBoxes().boxes(images.image(i), images.names[i]) for i in range(len(images))]
        candidates = Candidates(torch.zeros(20 * len(boxes), 1), [len(part) for part in boxes], torch.cat(boxes))
        assert recall(candidates, images.boxes) >= 0.6


def cover(seen, count):
    """The boxes on tenths that, one after the other, add most to the people who are overlapped well."""
    tenths = np.arange(11)
    pool = np.array([(x1, y1, x2, y2) for x1 in tenths for y1 in tenths for x2 in tenths for y2 in tenths if x1 < x2 and y1 < y2])
    seen = np.concatenate([seen, seen[:, [2, 1, 0, 3]] * [-1, 1, -1, 1] + [1, 0, 1, 0]])
    gain = ((box_iou(torch.from_numpy(pool / 10), torch.from_numpy(seen)).numpy() - 0.35) / 0.3).clip(0, 1)
    reached, chosen = np.zeros(len(seen)), []
    for _ in range(count):
        best = np.maximum(gain - reached, 0).sum(axis=1).round(6).argmax()
        chosen.append(tuple(pool[best].tolist()))
        reached = np.maximum(reached, gain[best])
    return chosen
