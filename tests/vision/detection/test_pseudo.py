import pytest
import torch
from torchvision.ops import box_iou

from lvmdc import LSVM, Candidates
from lvmdc.vision.datasets import ImageSet
from lvmdc.vision.detection import Detector, pseudo_labels, save_coco


@pytest.fixture(scope="module")
def learned():
    """Twelve images in a row of six windows: two objects of class 0 in the even ones, one of class 1 in each third."""
    g = torch.Generator().manual_seed(0)
    x, labels = 0.1 * torch.randn(12, 6, 3, generator=g), torch.full((12, 2), -1)
    x[::2, 1, 0] += 3.0
    x[::2, 4, 0] += 2.8
    x[::3, 2, 1] += 3.0
    labels[::2, 0], labels[::3, 1] = 1, 1
    boxes = torch.tensor([[8.0 * j, 0.0, 8.0 * j + 10, 10.0] for j in range(6)]).repeat(12, 1)
    candidates = Candidates(x.reshape(72, 3), [6] * 12, boxes)
    return Detector(LSVM(C=10.0, init="uniform")).fit(candidates, labels), candidates, labels


def test_by_itself_the_best_box_of_each_label_is_taken(learned):
    detector, candidates, labels = learned
    found, best = pseudo_labels(detector, candidates, labels), detector.locate(candidates, labels)
    assert torch.equal(found.box, best.box)
    assert len(found) == int((labels == 1).sum())


@pytest.mark.parametrize("least", [0.0, 0.3, 1.0])
def test_probable_boxes_of_classes_that_are_there_are_added_to_the_best(learned, least):
    detector, candidates, labels = learned
    found, predicted = pseudo_labels(detector, candidates, labels, least), detector.predict(candidates)
    for i in range(12):
        for k in range(2):
            own, all_of = found.of_image(i).of_label(k), predicted.of_image(i).of_label(k)
            if labels[i, k] != 1:
                assert len(own) == 0
                continue
            best = detector.locate(candidates.subset([i]), labels[[i]]).of_label(k)
            expected = {tuple(b) for b in best.box.tolist()} | {tuple(b) for b in all_of[all_of.score >= least].box.tolist()}
            assert sorted(own.box.tolist()) == sorted(map(list, expected))
            apart = box_iou(own.box, own.box).fill_diagonal_(0)
            assert float(apart.max()) <= detector.overlap


def test_second_objects_are_found_and_read_by_pycocotools(learned, tmp_path):
    coco = pytest.importorskip("pycocotools.coco")
    detector, candidates, labels = learned
    found = pseudo_labels(detector, candidates, labels, 0.3)
    assert sorted(found.of_image(0).of_label(0).box[:, 0].tolist()) == [8.0, 32.0]
    scenes = ImageSet([torch.zeros(10, 50, dtype=torch.uint8).numpy()] * 12, ["a", "b"], labels)
    read = coco.COCO(str(save_coco(tmp_path / "p.json", scenes, found)))
    assert len(read.getAnnIds()) == len(found)
    assert len(read.getAnnIds(imgIds=[1], catIds=[1])) == 2
    assert read.loadCats([2])[0]["name"] == "b"


def test_what_is_no_probability_is_refused(learned):
    with pytest.raises(ValueError, match=r"min_score must be a probability, or None, but it is 1\.5"):
        pseudo_labels(*learned, 1.5)
