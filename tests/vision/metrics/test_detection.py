import numpy as np
import pytest
import torch
from scenes import random_scenes
from torchvision.ops import box_iou

from lvmdc import Candidates, LabelledBoxes
from lvmdc.vision import metrics


def test_corloc_takes_the_best_box_of_every_image_that_shows_the_class():
    found, truth = random_scenes()
    values = metrics.corloc_by_class(found, truth, 3, iou=0.4)
    for k in range(3):
        hits = []
        for i in range(12):
            right = [
                b for b, j, c, d in zip(truth.box, truth.image, truth.label, truth.difficult, strict=True) if (j, c, d) == (i, k, False)
            ]
            if not right:
                continue
            own = sorted(
                (float(s), b)
                for s, b, j, c in zip(found.score, found.box.tolist(), found.image, found.label, strict=True)
                if (j, c) == (i, k)
            )
            hits.append(bool(own) and float(box_iou(torch.tensor([own[-1][1]]), torch.stack(right)).max()) >= 0.4)
        assert float(values[k]) == pytest.approx(np.mean(hits))
    assert 0.1 < float(values.mean()) < 0.9


def test_boxes_found_on_a_device_are_compared_with_true_ones_on_the_cpu(device):
    found, truth = random_scenes()
    for measure in (metrics.corloc_by_class, metrics.average_precision):
        assert torch.equal(measure(found.to(device), truth.to("cpu"), 3), measure(found.to("cpu"), truth.to("cpu"), 3))


def test_a_class_that_no_image_shows_has_no_corloc():
    truth = LabelledBoxes([0], [0], [[0, 0, 2, 2]], difficult=[True])
    assert metrics.corloc_by_class(LabelledBoxes([0], [0], [[0, 0, 2, 2]], score=[1.0]), truth, 1).isnan().all()


def test_recall_of_proposals_is_over_true_boxes_and_leaves_difficult_ones_aside():
    found, truth = random_scenes(n=12)
    order = found.image.argsort(stable=True)
    candidates = Candidates(torch.zeros(len(found), 1), torch.bincount(found.image, minlength=12), found.box[order])
    hits = [
        float(box_iou(b[None], found.box[found.image == i]).max()) >= 0.5
        for i, b, d in zip(truth.image, truth.box, truth.difficult, strict=True)
        if not d
    ]
    assert metrics.box_recall(candidates, truth) == pytest.approx(np.mean(hits))


def coco_ap(found, truth, n_classes, iou):
    """COCO's AP at one IoU from its definition: best score first, each takes the free true box it overlaps most; 101 recalls."""
    values = []
    for k in range(n_classes):
        own, right = found.of_label(k), truth.of_label(k)
        if len(right) == 0:
            continue
        overlap = box_iou(own.box.double(), right.box.double()) * (own.image[:, None] == right.image)
        free, hits = np.ones(len(right), bool), []
        for j in own.score.argsort(descending=True):
            row = np.where(free, overlap[j].numpy(), -1)
            hits.append(row.max() >= iou)
            if hits[-1]:
                free[row.argmax()] = False
        right_so_far = np.cumsum(hits)
        recall, precision = right_so_far / len(right), right_so_far / np.arange(1, len(hits) + 1)
        values.append(np.mean([precision[recall >= r].max(initial=0.0) for r in np.linspace(0, 1, 101)]))
    return np.mean(values)


def test_coco_average_precision_is_its_definition():
    pytest.importorskip("pycocotools")
    found, truth = random_scenes(difficult=0.0)
    values = metrics.coco_average_precision(found, truth, 12)
    assert values["AP50"] == pytest.approx(coco_ap(found, truth, 3, 0.5), abs=1e-6)
    assert values["AP75"] == pytest.approx(coco_ap(found, truth, 3, 0.75), abs=1e-6)
    assert values["AP"] == pytest.approx(np.mean([coco_ap(found, truth, 3, t) for t in np.linspace(0.5, 0.95, 10)]), abs=1e-6)


def test_coco_average_precision_leaves_difficult_boxes_aside():
    pytest.importorskip("pycocotools")
    truth = LabelledBoxes([0, 0], [0, 0], [[0, 0, 20, 20], [50, 50, 70, 70]], difficult=[True, False])
    found = LabelledBoxes([0, 0], [0, 0], [[0, 0, 20, 20], [50, 50, 70, 70]], score=[0.9, 0.8])
    assert metrics.coco_average_precision(found, truth, 1)["AP"] == pytest.approx(1.0)


def test_coco_average_precision_says_what_to_install(monkeypatch):
    def missing(*_, **__):
        raise ModuleNotFoundError("`MAP` metric requires …")

    monkeypatch.setattr("torchmetrics.detection.MeanAveragePrecision", missing)
    found, truth = random_scenes()
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'lvmdc\[coco\]'"):
        metrics.coco_average_precision(found, truth, 12)


def test_what_is_missing_is_named():
    _, truth = random_scenes()
    with pytest.raises(ValueError, match=r"found\.score is None"):
        metrics.corloc_by_class(truth, truth, 3)
    with pytest.raises(ValueError, match=r"found\.score is None"):
        metrics.coco_average_precision(truth, truth, 12)
    with pytest.raises(ValueError, match=r"candidates\.boxes is None"):
        metrics.box_recall(Candidates(torch.zeros(1, 1), [1]), truth)
