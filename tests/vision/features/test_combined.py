import numpy as np
import pytest
import torch
from PIL import Image

from lvmdc.vision.datasets import ImageSet
from lvmdc.vision.features import HOG, Concatenated, Features, build_candidates, cache_key
from lvmdc.vision.proposals import WindowGrid


class NameLength(Features):
    """Looked up by name: knows nothing of pixels."""

    def describe(self, image, boxes):
        raise TypeError("a name is needed")

    def describe_named(self, image, name, boxes):
        return torch.full((len(boxes), 1), float(len(name)))

    def settings(self):
        return {}


PIXELS = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
IMAGES = ImageSet([PIXELS], ["a"], [0], names=["cat.jpg"])


def test_parts_follow_one_another_times_their_weights():
    image, boxes = Image.fromarray(PIXELS), torch.tensor([[0.0, 0, 32, 32], [8.0, 8, 64, 64]])
    a, b = HOG(), HOG(cell=16)
    both = Concatenated([a, b], weights=[2.0, 0.5]).describe(image, boxes)
    assert torch.equal(both, torch.cat([2 * a.describe(image, boxes), 0.5 * b.describe(image, boxes)], dim=1))
    assert torch.equal(Concatenated({"fine": a, "coarse": b}, {"coarse": 0.5, "fine": 2.0}).describe(image, boxes), both)


def test_parts_that_go_by_names_get_them():
    candidates = build_candidates(IMAGES, WindowGrid(), Concatenated([HOG(), NameLength()]), progress=False)
    assert candidates.features.shape == (25, 325)
    assert candidates.features[:, -1].tolist() == [7.0] * 25


def test_parts_and_weights_are_in_the_key():
    made = [[HOG()], [HOG(), HOG()], [HOG(), HOG(cell=16)], [HOG(cell=16), HOG()], [HOG(), NameLength()]]
    all_of_them = [Concatenated(parts) for parts in made] + [Concatenated(made[1], weights=[1.0, 2.0])]
    assert len({cache_key(IMAGES, WindowGrid(), features) for features in all_of_them}) == len(all_of_them)
    named = Concatenated({"a": HOG(), "b": HOG()})
    assert cache_key(IMAGES, WindowGrid(), named) == cache_key(IMAGES, WindowGrid(), all_of_them[1])


def test_it_shows_what_it_is_made_of():
    assert repr(Concatenated([HOG()], weights=[0.5])).startswith("Concatenated(0.5 × HOG(size=(32, 32)")


@pytest.mark.parametrize(
    ("parts", "weights", "message"),
    [
        ([], None, "parts must hold at least one of Features"),
        ([HOG(), HOG()], [1.0], r"weights must have one factor for each of the parts \['0', '1'\], but it has those of \['0'\]"),
        ({"hog": HOG()}, {"hgo": 1.0}, r"parts \['hog'\], but it has those of \['hgo'\]"),
        ([HOG()], [0.0], r"weights must be positive, but that of 0 is 0\.0"),
        ([HOG()], [float("nan")], "that of 0 is nan"),
    ],
)
def test_parts_and_weights_that_do_not_fit_are_refused(parts, weights, message):
    with pytest.raises(ValueError, match=message):
        Concatenated(parts, weights)


def test_parts_that_are_no_features_are_refused():
    with pytest.raises(TypeError, match=r"parts must be Features, but parts\[0\] is 'hog'"):
        Concatenated(["hog"])
