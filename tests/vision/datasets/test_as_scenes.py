"""Images of one class each, as a detector takes them."""

import numpy as np
import pytest
import torch

from lvmdc.samples import split_by_class
from lvmdc.vision.datasets import ImageSet, as_scenes, cluttered_digits, split_scenes


def test_each_image_shows_its_class_and_no_other_where_its_box_is():
    images = cluttered_digits(per_class=5)
    scenes = as_scenes(images)
    for i in range(len(images)):
        assert scenes.shown(i) == [images.classes[int(images.y[i])]]
        assert scenes.truth.of_image(i).box.tolist() == [images.boxes[i].tolist()]
        assert scenes.truth.of_image(i).label.tolist() == [int(images.y[i])]
    assert set(scenes.labels.unique().tolist()) == {-1, 1}
    assert scenes.names == images.names


@pytest.mark.parametrize("fold", [0, 3])
def test_the_division_is_that_of_the_images_with_near_duplicates_on_one_side(fold):
    y, groups = [0] * 10 + [1] * 10, [*range(8), 7, 7, *range(20, 30)]
    images = ImageSet([np.zeros((4, 6), np.uint8)] * 20, ["cat", "dog"], y, groups=groups)
    train, test = split_scenes(as_scenes(images, fraction=0.5, fold=fold, split_seed=1))
    expected = split_by_class(torch.tensor(y), 0.5, fold, 1, groups)
    assert (train.tolist(), test.tolist()) == tuple(part.tolist() for part in expected)
    assert len({i in train.tolist() for i in (7, 8, 9)}) == 1
    assert as_scenes(images).truth is None
