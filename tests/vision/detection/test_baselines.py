"""What a detector must be better than, beside loops over every candidate."""

import numpy as np
import pytest
import torch
from torchvision.ops import box_iou

from lvmdc import Candidates, LabelledBoxes
from lvmdc.priors import Prior, ProductPrior
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


def test_the_prior_and_each_of_its_parts_are_baselines_too():
    candidates, scenes = scenes_and_candidates(0)

    class Wide(Prior):
        def log_weights(self, image, boxes):
            return boxes[:, 2] - boxes[:, 0]

        def settings(self):
            return {}

    class High(Wide):
        def log_weights(self, image, boxes):
            return 9 * (boxes[:, 3] - boxes[:, 1])

    sides = candidates.boxes[:, 2:] - candidates.boxes[:, :2]
    weights = {"wide_prior": sides[:, 0], "high_prior": sides[:, 1], "prior": sides[:, 0] + 9 * sides[:, 1]}
    found = baselines(candidates.with_prior(weights["prior"]), scenes, prior=ProductPrior(Wide(), High()))
    easy = scenes.truth[~scenes.truth.difficult]
    for name, values in weights.items():
        best = [int(part.argmax()) for part in values.split(candidates.counts.tolist())]
        shares = []
        for k in range(3):
            shown = sorted(set(easy.of_label(k).image.tolist()))
            boxes = [candidates.boxes[int(candidates.offsets[i]) + best[i]][None] for i in shown]
            right = [easy.of_label(k).of_image(i).box for i in shown]
            shares.append(np.mean([float(box_iou(b, r.to(b)).max()) >= 0.5 for b, r in zip(boxes, right, strict=True)]))
        assert found[name] == pytest.approx(np.mean(shares))


def test_the_centred_box_has_70_percent_of_each_side():
    images = ImageSet([np.zeros((100, 200), np.uint8)], ["a"], boxes=LabelledBoxes([0], [0], [[30, 15, 170, 85]]))
    candidates = Candidates(torch.zeros(1, 1), [1], [[0.0, 0, 9, 9]])
    assert baselines(candidates, images, iou=0.999)["centred_box"] == 1.0


def test_nothing_is_said_where_nothing_is_known():
    candidates, scenes = scenes_and_candidates(0)
    assert baselines(candidates, ImageSet(scenes.sources, scenes.classes, scenes.labels)) == {}
