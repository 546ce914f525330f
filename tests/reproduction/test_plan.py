"""The plan: as many runs as the paper's protocol has, each with a key of its own that stays the same."""

import dataclasses

import pytest

from lvmdc.cli.reproduce import read_protocol
from lvmdc.reproduction import Division, Method, Protocol, plan_runs
from lvmdc.reproduction.plan import describe_plan, tasks

PAPER = [10.0**k for k in range(-4, 3)]


def count(runs, inner, supervised):
    return sum(run.inner == inner and (run.method == "Supervised") == supervised for run in runs)


@pytest.mark.parametrize("figure", ["1", "2"])
def test_the_papers_figures_are_210_runs_and_70_supervised_ones(figure, config):
    cfg = config(f"figure='{figure}'")
    protocol = read_protocol(cfg)
    runs = plan_runs(protocol, "data")
    inner = cfg.validation.folds
    assert count(runs, inner=False, supervised=False) == 7 * 5 * 3 * 2 == 210
    assert count(runs, inner=False, supervised=True) == 70
    assert count(runs, inner=True, supervised=False) == 210 * inner
    assert count(runs, inner=True, supervised=True) == 70 * inner
    assert len({run.key for run in runs}) == len(runs)
    assert sorted({run.setting("C") for run in runs}) == PAPER
    disc = {(run.setting("J"), run.setting("beta"), run.setting("tol")) for run in runs if run.method == "DISC"}
    assert disc == {(0.1, 0.1, 1e-3)}
    assert f"{280 * (1 + inner)} runs: 280 on 5 folds (LSVM 70, ILSVM 70, DISC 70, Supervised 70)" in describe_plan(protocol, runs)


def test_all_methods_start_from_the_same_seeds(small):
    runs = plan_runs(small("lvmdc.LSVM", "lvmdc.DISC", folds=3), "data")
    seeds = {method: {(run.division.fold, run.setting("seed")) for run in runs if run.method == method} for method in ("LSVM", "DISC")}
    assert seeds["LSVM"] == seeds["DISC"] == {(0, 0), (1, 100), (2, 200)}


def test_grid_may_search_any_argument_of_a_learner():
    method = Method("DISC", "lvmdc.DISC", {"J": 0.1, "n_init": 5}, {"C": [1, 10], "J": [0.1, 0.01], "init": ["random", "central"]})
    runs = plan_runs(Protocol([method], {"overlap": {"_target_": "lvmdc.OverlapLoss"}}, folds=1, inner_folds=0), "data")
    assert len(runs) == 8
    assert {run.setting("J") for run in runs} == {0.1, 0.01}
    # Five starts from the same place would be one, five times.
    assert {(run.setting("init"), run.setting("n_init")) for run in runs} == {("random", 5), ("central", 1)}


def test_longest_runs_go_first(small):
    order = [task[0] for task in tasks(plan_runs(small("lvmdc.LSVM", C=(0.1, 10.0, 1.0)), "data"))]
    C = [run.setting("C") for run in order]
    assert sorted(C, reverse=True) == C
    assert [run.inner for run in order if run.setting("C") == 10.0] == [False] * 4 + [True] * 4


def test_runs_along_a_path_are_one_task_in_the_order_of_c(small):
    protocol = dataclasses.replace(small("lvmdc.LSVM", "lvmdc.DISC", C=(0.1, 10.0, 1.0)), path=True)
    paths = tasks(plan_runs(protocol, "data"))
    assert len(paths) == 2 * 2 * (2 + 2)
    assert all([run.setting("C") for run in path] == [0.1, 1.0, 10.0] for path in paths)
    assert all([run.before for run in path] == [(), (0.1,), (0.1, 1.0)] for path in paths)
    assert all(len({(run.method, run.loss, run.division) for run in path}) == 1 for path in paths)


def test_key_stays_the_same_for_ever(run):
    # Written down once: another key would make every result that exists look undone.
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
        {"before": (0.1,)},
    ],
)
def test_key_follows_all_that_decides_the_result(change, run):
    assert dataclasses.replace(run("LSVM"), **change).key != run("LSVM").key


def test_key_does_not_follow_names_or_how_a_number_is_written(run):
    one = run("LSVM")
    assert dataclasses.replace(one, method="latent SVM", loss="0/1", settings=(("C", 1),), point=()).key == one.key
