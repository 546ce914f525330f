from fractions import Fraction

import numpy as np
import pytest
import torch
from scenes import random_scenes

from lvmdc import LabelledBoxes
from lvmdc.vision import metrics


def devkit(found, truth, k, iou, eleven):
    """VOCevaldet.m and VOCap.m, line by line: boxes with both ends inside, counted from 1."""
    own, right = found.of_label(k), truth.of_label(k)
    gt = {i: [] for i in range(100)}
    npos = 0
    for i, b, d in zip(right.image.tolist(), right.box.tolist(), right.difficult.tolist(), strict=True):
        gt[i].append({"bb": [b[0] + 1, b[1] + 1, b[2], b[3]], "diff": d, "det": False})
        npos += not d
    tp, fp = [], []
    for d in np.argsort(-own.score.numpy(), kind="stable"):
        b = own.box[d].tolist()
        bb, ovmax, jmax = [b[0] + 1, b[1] + 1, b[2], b[3]], -np.inf, None
        for j, g in enumerate(gt[int(own.image[d])]):
            bbgt = g["bb"]
            bi = [max(bb[0], bbgt[0]), max(bb[1], bbgt[1]), min(bb[2], bbgt[2]), min(bb[3], bbgt[3])]
            iw, ih = bi[2] - bi[0] + 1, bi[3] - bi[1] + 1
            if iw > 0 and ih > 0:
                ua = (bb[2] - bb[0] + 1) * (bb[3] - bb[1] + 1) + (bbgt[2] - bbgt[0] + 1) * (bbgt[3] - bbgt[1] + 1) - iw * ih
                if iw * ih / ua > ovmax:
                    ovmax, jmax = iw * ih / ua, j
        t = f = 0
        if ovmax >= iou:
            g = gt[int(own.image[d])][jmax]
            if not g["diff"]:
                t, f, g["det"] = (1, 0, True) if not g["det"] else (0, 1, True)
        else:
            f = 1
        tp.append(t)
        fp.append(f)
    tp, fp = np.cumsum(tp), np.cumsum(fp)
    rec = [Fraction(int(t), npos) for t in tp]
    prec = [Fraction(int(t), int(t + f)) if t + f else Fraction(0) for t, f in zip(tp, fp, strict=True)]
    if eleven:
        return sum(max([p for p, r in zip(prec, rec, strict=True) if r >= Fraction(t, 10)], default=Fraction(0)) for t in range(11)) / 11
    mrec, mpre = [Fraction(0), *rec, Fraction(1)], [Fraction(0), *prec, Fraction(0)]
    for i in range(len(mpre) - 2, -1, -1):
        mpre[i] = max(mpre[i], mpre[i + 1])
    return sum((mrec[i] - mrec[i - 1]) * mpre[i] for i in range(1, len(mrec)))


@pytest.mark.parametrize("interpolation", ["area", "11_point"])
@pytest.mark.parametrize("iou", [0.3, 0.5, 0.7])
def test_average_precision_is_that_of_the_development_kit(iou, interpolation):
    for seed in range(3):
        found, truth = random_scenes(seed)
        expected = [float(devkit(found, truth, k, iou, interpolation == "11_point")) for k in range(3)]
        values = metrics.average_precision(found, truth, 3, iou, interpolation)
        assert values.tolist() == pytest.approx(expected)
        assert 0.01 < float(values.mean()) < 0.95


def test_finding_everything_is_one_and_finding_nothing_zero():
    found, truth = random_scenes(difficult=0.0)
    perfect = LabelledBoxes(truth.image, truth.label, truth.box, score=torch.rand(len(truth)))
    nothing = found[found.label < 0]
    for interpolation in ("area", "11_point"):
        assert metrics.average_precision(perfect, truth, 3, 0.99, interpolation).tolist() == pytest.approx([1.0] * 3)
        assert metrics.average_precision(nothing, truth, 3, 0.5, interpolation).tolist() == [0.0] * 3


def test_a_prediction_on_a_difficult_box_counts_neither_way_however_often():
    truth = LabelledBoxes([0, 0], [0, 0], [[0, 0, 2, 2], [5, 5, 7, 7]], difficult=[True, False])
    easy = LabelledBoxes([0], [0], [[5, 5, 7, 7]], score=[0.1])
    both = LabelledBoxes([0, 0, 0], [0, 0, 0], [[0, 0, 2, 2], [0, 0, 2, 2], [5, 5, 7, 7]], score=[0.9, 0.8, 0.1])
    assert metrics.average_precision(easy, truth, 1) == metrics.average_precision(both, truth, 1) == 1.0
    assert metrics.matches(both, truth)[0].tolist() == [-1, -1, 1]


def test_a_class_with_difficult_boxes_alone_has_no_value():
    truth = LabelledBoxes([0], [0], [[0, 0, 2, 2]], difficult=[True])
    assert metrics.average_precision(LabelledBoxes([0], [0], [[0, 0, 2, 2]], score=[1.0]), truth, 1).isnan().all()


def test_a_recall_of_three_tenths_counts_at_three_tenths():
    precision, recall = torch.ones(3, dtype=torch.float64), torch.tensor([1, 2, 3], dtype=torch.float64) / 10
    assert metrics.area_precision(precision, recall, "11_point") == pytest.approx(4 / 11)


def test_what_is_missing_is_named():
    found, truth = random_scenes()
    with pytest.raises(ValueError, match=r"found\.score is None"):
        metrics.average_precision(truth, truth, 3)
    with pytest.raises(ValueError, match="iou must lie in"):
        metrics.average_precision(found, truth, 3, iou=0.0)
    with pytest.raises(ValueError, match="interpolation must be area or 11_point"):
        metrics.average_precision(found, truth, 3, interpolation="101")
