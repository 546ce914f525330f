"""Divisions that came with a data set."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from lvmdc.samples import published_split


def test_samples_are_found_by_their_names_in_any_order(tmp_path):
    np.savez(tmp_path / "a.npz", images=["a", "b", "c", "d"], train_2=[3, 0], test_2=[1])
    train, test = published_split(tmp_path / "a.npz", 1, ["d", "c", "b", "a"])
    assert (train.tolist(), test.tolist()) == ([0, 3], [2])


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"train_1": [0], "test_1": [5]}, "test_1 of .* must count its 3 images from 0"),
        ({"train_1": [0, 1], "test_1": [1]}, "must share no image"),
        ({"train_1": [0]}, "must hold test_1 for data.fold=0, but it does not"),
        ({"train_1": [0], "test_1": [2]}, "names c, which is not among the samples"),
    ],
)
def test_division_that_does_not_fit_is_refused(arrays, sentence, tmp_path):
    np.savez(tmp_path / "a.npz", images=["a", "b", "c"], **arrays)
    with pytest.raises(ValueError, match=sentence):
        published_split(tmp_path / "a.npz", 0, ["a", "b"])


def test_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"split: .*none\.npz does not exist"):
        published_split(tmp_path / "none.npz", 0, ["a"])


def test_file_that_is_no_npz_is_named(tmp_path):
    (tmp_path / "a.npz").write_text("train 1 2 3")
    with pytest.raises(ValueError, match=r"a\.npz is damaged or not an npz file of plain arrays"):
        published_split(tmp_path / "a.npz", 0, ["a"])


MAMMALS = Path(os.environ.get("LVMDC_DATA", "data"), "mammals", "hog.npz")


@pytest.mark.real_data
@pytest.mark.skipif(not MAMMALS.is_file(), reason="needs mammals/hog.npz under LVMDC_DATA")
def test_published_folds_of_the_mammals_are_whole_divisions():
    from lvmdc.vision.datasets.mammals import photographs

    for fold in range(5):
        train, test = published_split(MAMMALS, fold, photographs())
        assert (len(train), len(test)) == (245, 26)
        assert torch.equal(torch.cat([train, test]).sort().values, torch.arange(271))
