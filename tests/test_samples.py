import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lvmdc.samples import published_split, split_by_class
from lvmdc.sequences import MotifMap, SequenceSet
from lvmdc.vision.datasets import rotated_digits


@settings(max_examples=50, deadline=None)
@given(sizes=st.lists(st.integers(2, 30), min_size=1, max_size=5), fraction=st.floats(0.05, 0.95), fold=st.integers(0, 9))
def test_without_groups_every_class_is_divided_at_its_fraction(sizes, fraction, fold):
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    train, test = split_by_class(y, fraction, fold)
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(len(y)))
    assert train.tolist() == sorted(train.tolist())
    for k, size in enumerate(sizes):
        assert int((y[train] == k).sum()) == min(max(round(fraction * size), 1), size - 1)


@settings(max_examples=50, deadline=None)
@given(data=st.data(), seed=st.integers(0, 5))
def test_groups_stay_on_one_side_and_classes_on_both(data, seed):
    y = np.repeat(np.arange(3), 20)
    groups = np.array(data.draw(st.lists(st.integers(0, 40), min_size=60, max_size=60))) + 100 * y  # of one class each
    assume(all(len(set(groups[y == k])) > 1 for k in range(3)))
    train, test = split_by_class(y, seed=seed, groups=groups)
    assert not set(groups[train]) & set(groups[test])
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(60))
    assert set(y[train]) == set(y[test]) == {0, 1, 2}


def test_pairs_of_near_duplicates_cost_no_more_than_a_sample():
    y, groups = np.repeat(np.arange(4), 40), np.arange(160)
    groups[::10] = groups[1::10]  # pairs
    for fold in range(5):
        train, _ = split_by_class(y, fold=fold, groups=groups)
        assert (np.abs(np.bincount(y[train]) - 24) <= 1).all()


def test_a_group_of_two_classes_stays_on_one_side():
    y, groups = np.repeat([0, 1], 10), np.arange(20)
    groups[9] = groups[10]
    for fold in range(20):
        train, test = split_by_class(y, fold=fold, groups=groups)
        assert (9 in train.tolist()) == (10 in train.tolist())
        assert len(train) + len(test) == 20


def test_the_same_fold_and_seed_repeat_and_others_differ():
    y = torch.arange(60) % 3
    base = split_by_class(y, fold=1, seed=2)[0]
    assert torch.equal(base, split_by_class(y.numpy(), fold=1, seed=2)[0])
    assert not torch.equal(base, split_by_class(y, fold=2, seed=2)[0])
    assert not torch.equal(base, split_by_class(y, fold=1, seed=3)[0])


def test_every_sample_is_tested_in_its_share_of_the_folds():
    tested = np.zeros(30)
    for fold in range(300):
        tested[split_by_class(np.arange(30) % 3, fold=fold)[1]] += 1
    assert np.abs(tested / 300 - 0.4).max() < 0.12  # four standard deviations


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": [0, 0, 1]}, "class 1 of y has too few samples"),
        ({"y": [0, 0, 1, 1], "groups": [0, 1, 2, 2]}, "class 1 of y has too few groups"),
        ({"y": [0, 0], "fraction": 1.0}, "fraction must lie between 0 and 1"),
        ({"y": []}, r"y must have shape \(n,\)"),
        ({"y": [0, 0], "groups": [0]}, "groups must have shape"),
    ],
)
def test_what_cannot_be_divided_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        split_by_class(**arguments)


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


def test_subset_keeps_what_belongs_to_a_sample_and_forgets_the_division():
    whole = rotated_digits(per_class=3)
    whole.division = (torch.arange(4), torch.arange(4, 6))
    part = whole.subset([5, 0])
    assert part.division is None
    assert part.y.tolist() == [1, 0]
    assert part.h.tolist() == [int(whole.h[5]), int(whole.h[0])]
    assert part.groups.tolist() == [int(whole.groups[5]), int(whole.groups[0])]
    assert part.names == [whole.names[5], whole.names[0]]
    assert len(whole) == 6  # as it was


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"y": [0, 2]}, r"y must hold at least one class index, each in 0\.\.1"),
        ({"y": []}, "y must hold at least one class index"),
        ({"h": [0]}, "h must have one entry for each of the 2 samples, but it has 1"),
        ({"names": ["a"]}, "names must have one entry"),
        ({"groups": [1, 2, 3]}, "groups must have one entry"),
        ({"sequences": ["ACGT"]}, "sequences must have one entry"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes, sentence):
    arguments = {"sequences": ["ACGT", "CCCC"], "y": [0, 1], "psi": MotifMap(3, 1)}
    with pytest.raises(ValueError, match=sentence):
        SequenceSet(**(arguments | changes))
