"""The plan has as many runs as the paper's protocol, each with a key that stays the same; no choice looks at the test part."""

import dataclasses
from itertools import groupby

import pytest
import torch

from lvmdc.cli.reproduce import read_protocol
from lvmdc.reproduction import Division, Method, Protocol, plan_runs
from lvmdc.reproduction.protocol import check_divisions, describe_plan, in_order
from lvmdc.samples import split_by_class


@pytest.mark.parametrize("figure", ["1", "2"])
def test_the_papers_figures_compare_all_systems_on_five_folds(figure, config):
    cfg = config("reproduce", f"figure='{figure}'")
    planned = read_protocol(cfg)
    runs = plan_runs(planned, "data")
    inner = cfg.validation.folds
    outer = [run for run in runs if not run.inner]
    assert len(runs) == len(outer) * (1 + inner)
    assert {run.division.fold for run in outer} == set(range(5))
    assert {"LSVM", "ILSVM", "SPL", "EM", "M3E", "DISC", "SoftDISC", "Supervised"} <= {run.method for run in runs}
    disc = {(run.setting("J"), run.setting("beta"), run.setting("tol")) for run in runs if run.method.startswith("DISC")}
    assert disc == {(0.1, 0.1, 1e-3), (1.0, 0.1, 1e-3)}
    assert f"{len(runs)} runs: {len(outer)} on 5 folds (LSVM " in describe_plan(planned, runs)


def test_what_every_method_searches_is_not_searched_where_h_is_known(config):
    runs = plan_runs(read_protocol(config("reproduce", "figure=digits")), "data")
    strengths = {name: {run.setting("prior_strength") for run in runs if run.method == name} for name in ("LSVM", "EM", "Supervised")}
    assert strengths == {"LSVM": {0.0, 1.0}, "EM": {0.0, 1.0}, "Supervised": {None}}


@pytest.mark.parametrize("value", [-1.0, "strong", float("inf")])
def test_a_strength_that_is_no_factor_is_refused(value):
    with pytest.raises(ValueError, match=r"methods\.EM: prior_strength must be a number of at least 0, but it is "):
        Method("EM", "lvmdc.EM", {}, {"prior_strength": [value]}).check()


def test_all_methods_start_from_the_same_seeds(protocol):
    runs = plan_runs(protocol("lvmdc.LSVM", "lvmdc.DISC", folds=3), "data")
    seeds = {method: {(run.division.fold, run.setting("seed")) for run in runs if run.method == method} for method in ("LSVM", "DISC")}
    assert seeds["LSVM"] == seeds["DISC"] == {(0, 0), (1, 100), (2, 200)}


def test_grid_may_search_any_argument_of_a_learner():
    method = Method("DISC", "lvmdc.DISC", {"J": 0.1, "n_init": 5}, {"C": [1, 10], "J": [0.1, 0.01], "init": ["random", "central"]})
    runs = plan_runs(Protocol([method], {"overlap": {"_target_": "lvmdc.OverlapLoss"}}, folds=1, inner_folds=0), "data")
    assert len(runs) == 8
    assert {run.setting("J") for run in runs} == {0.1, 0.01}
    # Five starts from the same place would give the same result.
    assert {(run.setting("init"), run.setting("n_init")) for run in runs} == {("random", 5), ("central", 1)}


def test_runs_of_a_division_go_together_and_the_longest_of_them_first(protocol):
    order = in_order(plan_runs(protocol("lvmdc.LSVM", C=(0.1, 10.0, 1.0)), "data"))
    divisions = [run.division for run in order]
    assert len(list(groupby(divisions))) == len(set(divisions)) == 4
    for _, runs in groupby(order, key=lambda run: run.division):
        C = [run.setting("C") for run in runs]
        assert sorted(C, reverse=True) == C


def test_key_stays_the_same(run):
    # With another key, every result that exists would look unfinished.
    assert run("LSVM", C=10.0).key == "15ec5f5eebc56aedae73a36f"


@pytest.mark.parametrize(
    "change",
    [
        {"learner": "lvmdc.ILSVM"},
        {"loss_spec": '{"_target_": "lvmdc.OverlapLoss"}'},
        {"settings": (("C", 2.0),)},
        {"division": Division(1)},
        {"division": Division(0, fraction=0.5)},
        {"division": Division(0, seed=1)},
        {"division": Division(0, inner=0, inner_fraction=0.75)},
        {"data": "other data"},
    ],
)
def test_key_depends_on_all_that_decides_the_result(change, run):
    assert dataclasses.replace(run("LSVM"), **change).key != run("LSVM").key


def test_key_does_not_depend_on_names_or_on_how_a_number_is_written(run):
    one = run("LSVM")
    assert dataclasses.replace(one, method="latent SVM", loss="0/1", settings=(("C", 1),), point=()).key == one.key


def test_folds_are_those_of_split_by_class(digits):
    train, test = Division(fold=3, fraction=0.6, seed=2).parts(digits.y, digits.groups)
    expected = split_by_class(digits.y, 0.6, 3, 2, digits.groups)
    assert torch.equal(train, expected[0])
    assert torch.equal(test, expected[1])


def test_validation_uses_no_test_image_nor_a_near_duplicate_of_one(protocol):
    y = torch.arange(6).repeat_interleave(20)
    groups = torch.arange(120)
    groups[1::4] = groups[0::4]  # every second pair is one of near duplicates
    for run in plan_runs(protocol("lvmdc.LSVM", folds=5, inner_folds=3), "data"):
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
