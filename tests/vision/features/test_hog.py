import pickle
import time

import cv2
import numpy as np
import pytest
import torch
from PIL import Image

from lvmdc.vision.features import HOG
from lvmdc.vision.proposals import WindowGrid


def textured(width, height, seed=0):
    noise = np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(cv2.GaussianBlur(noise, (5, 5), 2))


def plain_hog(pixels, cell=8, block=2, bins=9, turn_of=np.pi):
    """HOG written out: square-root gamma, centred differences, votes shared between bins, positions and cells, clipped norms."""
    grey = np.sqrt(pixels.astype(float))
    padded = np.pad(grey, 1, mode="reflect")
    dx, dy = padded[1:-1, 2:] - padded[1:-1, :-2], padded[2:, 1:-1] - padded[:-2, 1:-1]
    size, turn = np.hypot(dx, dy), np.mod(np.arctan2(dy, dx), turn_of) * bins / turn_of - 0.5
    low = np.floor(turn).astype(int)
    votes = np.zeros((*grey.shape, bins))
    rows, columns = np.indices(grey.shape)
    np.add.at(votes, (rows, columns, low % bins), size * (1 - (turn - low)))
    np.add.at(votes, (rows, columns, (low + 1) % bins), size * (turn - low))
    side, out = block * cell, []
    place = np.arange(side)
    bell = np.exp(-((place - side / 2) ** 2) / (2 * (side / 4) ** 2))
    share = np.array([np.clip(1 - np.abs((place + 0.5) / cell - 0.5 - c), 0, None) for c in range(block)])  # (cells, pixels)
    for left in range(0, grey.shape[1] - side + 1, cell):
        for top in range(0, grey.shape[0] - side + 1, cell):
            piece = votes[top : top + side, left : left + side] * (bell[:, None] * bell)[..., None]
            h = np.einsum("ay,bx,yxo->bao", share, share, piece).ravel()
            h = np.minimum(h / (np.linalg.norm(h) + 0.1 * len(h)), 0.2)
            out.append(h / (np.linalg.norm(h) + 1e-3))
    return np.concatenate(out)


@pytest.mark.parametrize("signed", [False, True])
def test_a_window_agrees_with_hog_written_out(signed):
    grey = textured(32, 32).convert("L")
    hog = HOG(colour=False, signed=signed, orientations=18 if signed else 9)
    ours = hog.describe(grey.convert("RGB"), torch.tensor([[0.0, 0, 32, 32]]))[0].numpy()
    written_out = plain_hog(np.asarray(grey), bins=hog.orientations, turn_of=2 * np.pi if signed else np.pi)
    assert np.abs(ours - written_out).max() < 1e-3


def test_only_signed_gradients_distinguish_an_image_from_its_negative():
    image = textured(32, 32).convert("L").point(lambda level: 255 if level > 127 else 0).convert("RGB")  # for which gamma does nothing
    negative, box = Image.eval(image, lambda level: 255 - level), torch.tensor([[0.0, 0, 32, 32]])
    for signed, orientations in ((False, 9), (True, 18)):
        hog = HOG(signed=signed, orientations=orientations)
        assert torch.allclose(hog.describe(image, box), hog.describe(negative, box), atol=1e-5) is not signed


@pytest.mark.parametrize("size", [(32, 32), (48, 64)])
def test_a_description_depends_on_the_window_alone(size):
    image = textured(100, 90)
    hog = HOG(size=size)
    boxes = torch.tensor([[3.0, 5, 3 + size[0], 5 + size[1]], [0, 0, 90, 80], [10, 10, 25, 20]])
    together = hog.describe(image, boxes)
    assert together.shape == (3, hog.n_features)
    assert together.dtype == torch.float32
    for box, row in zip(boxes, together, strict=True):
        crop = image.crop(tuple(box.long().tolist()))
        assert torch.equal(row, hog.describe(crop, torch.tensor([[0.0, 0, *crop.size]]))[0])


def test_a_window_of_the_native_size_is_not_resampled(monkeypatch):
    monkeypatch.setattr(cv2, "resize", lambda *a, **k: pytest.fail("resized"))
    HOG().describe(textured(64, 64), WindowGrid().boxes(textured(64, 64), "a"))


def test_the_same_pattern_at_twice_the_size_gives_similar_features():
    small = textured(32, 32)
    large = small.resize((64, 64), Image.Resampling.BICUBIC)
    a, b = (HOG().describe(i, torch.tensor([[0.0, 0, *i.size]]))[0] for i in (small, large))
    other = HOG().describe(textured(32, 32, seed=1), torch.tensor([[0.0, 0, 32, 32]]))[0]
    assert torch.cosine_similarity(a, b, dim=0) > 0.95 > torch.cosine_similarity(a, other, dim=0)


def test_grey_images_look_the_same_in_colour_and_in_grey():
    grey = textured(64, 64).convert("L").convert("RGB")
    boxes = WindowGrid().boxes(grey, "a")
    assert torch.allclose(HOG(colour=True).describe(grey, boxes), HOG(colour=False).describe(grey, boxes), atol=1e-5)


def test_a_flat_image_has_finite_features():
    assert bool(HOG().describe(Image.new("RGB", (32, 32)), torch.tensor([[0.0, 0, 32, 32]])).isfinite().all())


def test_the_number_of_opencv_threads_is_left_as_it_was():
    before = cv2.getNumThreads()
    cv2.setNumThreads(2)
    HOG().describe(textured(64, 64), torch.tensor([[0.0, 0, 32, 32]]))
    assert cv2.getNumThreads() == 2
    cv2.setNumThreads(before)


def test_a_describer_can_be_sent_to_another_process():
    assert pickle.loads(pickle.dumps(HOG(size=(48, 64)))).settings() == HOG(size=(48, 64)).settings()


@pytest.mark.parametrize("settings", [{"size": (48, 64)}, {"size": (128, 96), "cell": 16, "orientations": 18, "signed": True}])
def test_windows_are_described_at_400_a_second_or_more(settings):
    image = textured(400, 300)
    boxes = WindowGrid(size=(160, 120), stride=6, max_boxes=2000).boxes(image, "a")[:1000]
    start = time.process_time()
    HOG(**settings).describe(image, boxes)
    assert time.process_time() - start < 2.4  # 20 seconds for 8,000


@pytest.mark.parametrize(
    ("box", "message"),
    [([0.0, 0, 65, 32], "inside the image, 64 by 64"), ([5.0, 5, 5.2, 9], r"boxes\[0\] is"), ([-3.0, 0, 20, 20], "inside")],
)
def test_a_box_outside_the_image_is_refused(box, message):
    with pytest.raises(ValueError, match=message):
        HOG().describe(textured(64, 64), torch.tensor([box]))


@pytest.mark.parametrize("changed", [{"size": (30, 32)}, {"size": (8, 32)}, {"cell": 0}, {"block": 0}, {"orientations": 0}])
def test_a_shape_that_cells_do_not_fill_is_refused(changed):
    with pytest.raises(ValueError, match=next(iter(changed))):
        HOG(**changed)
