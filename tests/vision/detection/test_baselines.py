"""What a detector must be better than, beside loops over every candidate."""

import numpy as np
import pytest
import torch
from torchvision.ops import box_iou

from lvmdc import Candidates, LabelledBoxes
from lvmdc.vision.datasets import ImageSet
from lvmdc.vision.detection import baselines


def scenes_and_candidates(seed):
    rng = np.random.default_rng(seed)

    def boxes(n):
        corner = rng.uniform(0, 8, (n, 2))
        return np.concatenate([corner, corner + rng.uniform(2, 6, (n, 2))], axis=1)

    counts = rng.integers(3, 9, 12)
    candidates = Candidates(torch.zeros(int(counts.sum()), 1), counts, boxes(counts.sum()))
    truth = LabelledBoxes(np.arange(30) % 12, rng.integers(0, 3, 30), boxes(30), difficult=rng.random(30) < 0.2)
    return candidates, ImageSet([np.zeros((4, 6), np.uint8)] * 12, ["a", "b", "c"], boxes=truth)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("iou", [0.2, 0.5])
def test_both_guesses_are_what_loops_find(seed, iou):
    candidates, scenes = scenes_and_candidates(seed)
    central, random = [], []
    for k in range(3):
        first, all_of_them = [], []
        for i in range(12):
            right = [scenes.truth.box[j] for j in range(30) if (int(scenes.truth.image[j]), int(scenes.truth.label[j])) == (i, k)
                     and not scenes.truth.difficult[j]]  # fmt: skip
            if not right:
                continue
            start = int(candidates.offsets[i])
            mine = candidates.boxes[start : start + int(candidates.counts[i])]
            hit = [max(float(box_iou(box[None], r[None].to(box))) for r in right) >= iou for box in mine]
            all_of_them.append(sum(hit) / len(hit))
            first.append(hit[int(box_iou(mine, mine).mean(dim=1).argmax())])
        central += [sum(first) / len(first)]
        random += [sum(all_of_them) / len(all_of_them)]
    found = baselines(candidates, scenes, iou)
    assert found["central"] == pytest.approx(sum(central) / 3)
    assert found["random"] == pytest.approx(sum(random) / 3)


def test_nothing_is_said_where_nothing_is_known():
    candidates, scenes = scenes_and_candidates(0)
    assert baselines(candidates, ImageSet(scenes.sources, scenes.classes, scenes.labels)) == {}
