"""Contrast with the ring around a box, beside sums over cells."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import normalize

from lvmdc.boxes import outer_boxes
from lvmdc.vision.features import CNN, cnn
from lvmdc.vision.features.ring import ring_means
from lvmdc.vision.features.roi import roi_pool


@pytest.mark.parametrize("seed", range(3))
def test_the_ring_is_the_outer_box_without_the_box_cell_by_cell(seed):
    rng = np.random.default_rng(seed)
    cells = torch.from_numpy(rng.random((3, 10, 12))).float()
    box, outer = torch.tensor([[4.0, 3.0, 8.0, 6.0]]), torch.tensor([[2.0, 1.0, 10.0, 9.0]])

    def mean(b):
        x1, y1, x2, y2 = b[0].int().tolist()
        return cells[:, y1:y2, x1:x2].mean(dim=(1, 2))[None]

    mask = torch.zeros(10, 12, dtype=torch.bool)
    mask[1:9, 2:10] = True
    mask[3:6, 4:8] = False
    assert torch.allclose(ring_means(mean(box), mean(outer), box, outer)[0], cells[:, mask].mean(dim=1), atol=1e-5)


def test_outer_boxes_stay_inside_and_hold_the_box():
    rng = np.random.default_rng(0)
    corner = rng.uniform(0, 50, (40, 2))
    boxes = torch.tensor(np.concatenate([corner, np.minimum(corner + rng.uniform(2, 40, (40, 2)), [80, 60])], axis=1)).float()
    boxes = boxes[(boxes[:, 2:] > boxes[:, :2] + 1).all(dim=1)]
    outer = outer_boxes(boxes, 80.0, 60.0)
    assert bool((outer[:, :2] <= boxes[:, :2]).all() and (outer[:, 2:] >= boxes[:, 2:]).all())
    assert bool((outer[:, :2] >= 0).all() and (outer[:, 2:] <= torch.tensor([80.0, 60.0])).all())


def test_a_box_with_nothing_around_it_has_no_ring():
    whole = torch.tensor([[0.0, 0.0, 8.0, 4.0]])
    assert not bool(ring_means(torch.ones(1, 2), torch.ones(1, 2), whole, outer_boxes(whole, 8.0, 4.0)).any())


def test_the_features_of_a_window_are_followed_by_their_contrast():
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (96, 128, 3), dtype=np.uint8))
    options = {"mode": "roi", "longer_side": 256, "weights": None, "normalise": 0.0}
    ring, plain = (CNN("mobilenet_v3_small", contrast=contrast, **options) for contrast in ("ring", None))
    boxes = torch.tensor([[30.0, 20.0, 80.0, 70.0], [0.0, 0.0, 128.0, 96.0]])
    found = ring.describe(image, boxes)
    assert found.shape == (2, ring.n_features) == (2, 2 * plain.n_features)
    own = plain.describe(image, boxes)
    assert torch.allclose(found[:, : plain.n_features], own)
    cells, outer = ring.map(image)[None], outer_boxes(boxes, 128.0, 96.0)
    pooled = [roi_pool(cells, [b * 2], 1, 32) for b in (boxes, outer)]
    around = 8 * normalize(ring_means(*pooled, boxes, outer))
    assert torch.allclose(found[:, plain.n_features :], own - around, atol=1e-4)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"contrast": "edge"}, "contrast must be 'ring' or None, but it is 'edge'"),
        ({"contrast": "ring", "normalise": 0.0}, "contrast and maps_dir need mode='roi'"),
        ({"contrast": "ring", "mode": "roi"}, "contrast='ring' compares numbers of equal length"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        CNN("mobilenet_v3_small", weights=None, **changed)


@pytest.mark.parametrize(("grid", "contrast"), [(1, "ring"), (2, None), (2, "ring")])
def test_many_boxes_are_described_a_block_at_a_time(grid, contrast, monkeypatch):
    """So that memory on the way to the numbers does not grow with the boxes of an image."""
    network = CNN("mobilenet_v3_small", mode="roi", longer_side=128, grid=grid, normalise=0.0, contrast=contrast, weights=None)
    image = Image.effect_noise((128, 96), 60).convert("RGB")
    corner = torch.from_numpy(np.random.default_rng(0).uniform(0, 60, (50, 2))).float()
    boxes = torch.cat([corner, corner + 20], dim=1)
    whole = network.describe(image, boxes)
    block, sizes = 7 * network.n_features, []

    def watched(maps, places, grid, stride):
        sizes.append(len(places[0]) * max(grid**2 * maps[0, 0].numel(), grid**2 * maps.shape[1]))
        return roi_pool(maps, places, grid, stride)

    monkeypatch.setattr(cnn, "BLOCK", block)
    monkeypatch.setattr(cnn, "roi_pool", watched)
    assert torch.allclose(network.describe(image, boxes), whole, atol=1e-5)
    assert len(sizes) >= 8
    assert max(sizes) <= block
