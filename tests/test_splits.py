import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lvmdc.samples import split_by_class


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
