"""Hyperparameters are chosen without a look at the test part."""

import pytest
import torch

from lvmdc.reproduction import Division, plan_runs
from lvmdc.reproduction.protocol import check_divisions
from lvmdc.samples import split_by_class


def test_folds_are_those_of_split_by_class(digits):
    train, test = Division(fold=3, fraction=0.6, seed=2).parts(digits.y, digits.groups)
    expected = split_by_class(digits.y, 0.6, 3, 2, digits.groups)
    assert torch.equal(train, expected[0])
    assert torch.equal(test, expected[1])


def test_validation_never_sees_a_test_image_nor_a_near_duplicate_of_one(small):
    y = torch.arange(6).repeat_interleave(20)
    groups = torch.arange(120)
    groups[1::4] = groups[0::4]  # every second pair is one of near duplicates
    for run in plan_runs(small("lvmdc.LSVM", folds=5, inner_folds=3), "data"):
        kept, held_out = (set(part.tolist()) for part in run.division.parts(y, groups))
        train, test = (set(part.tolist()) for part in Division(run.division.fold).parts(y, groups))
        if run.inner:
            assert kept | held_out == train
        assert not kept & held_out
        assert not (kept | held_out) & test or not run.inner
        assert not {int(groups[i]) for i in kept} & {int(groups[i]) for i in test}
        assert not {int(groups[i]) for i in kept} & {int(groups[i]) for i in held_out}
        assert {int(y[i]) for i in held_out} == set(range(6))


def test_validation_folds_differ_from_each_other(digits):
    held_out = {tuple(Division(0, inner=i, inner_fraction=0.75).parts(digits.y)[1].tolist()) for i in range(4)}
    assert len(held_out) == 4


def test_class_too_small_for_a_validation_fold_is_refused_before_any_work():
    y = torch.tensor([0, 0, 0, 0, 1, 1])
    check_divisions({Division(0)}, y)
    with pytest.raises(ValueError, match="fold 0, validation fold 1: class 1 of y has too few samples"):
        check_divisions({Division(0), Division(0, inner=1, inner_fraction=0.75)}, y)
