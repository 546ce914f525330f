"""What is done stays done, and what fails does not end the rest."""

import dataclasses
import json
from concurrent.futures.process import BrokenProcessPool

import pytest

from lvmdc import LSVM, OverlapLoss, fit_path
from lvmdc.reproduction import Store, do_runs, plan_runs
from lvmdc.reproduction import runner as pool
from lvmdc.reproduction.store import code_digest


@pytest.fixture
def runs(small, digits):
    protocol = small("lvmdc.LSVM", "lvmdc.ILSVM", C=(1.0,), losses={"zero_one": {"_target_": "lvmdc.ZeroOneLoss"}})
    return plan_runs(protocol, digits.key)


def quiet(runs, samples, store, n_jobs=1):
    return do_runs(runs, samples, store, n_jobs=n_jobs, progress=False)


def test_every_run_leaves_one_whole_result(runs, samples, tmp_path):
    store = Store(tmp_path / "out")
    quiet(runs, samples, store)
    assert sorted(path.name for path in (tmp_path / "out" / "runs").iterdir()) == sorted(f"{run.key}.json" for run in runs)
    result = json.loads(store.path(runs[0]).read_text(encoding="utf-8"))
    assert 0 <= result["measures"]["loss"] <= 1
    assert result["run"]["settings"]["C"] == 1.0
    assert result["code"] == code_digest()
    assert not list((tmp_path / "out" / "running").iterdir())


@pytest.mark.slow
@pytest.mark.ranks
def test_two_processes_find_the_same_numbers_as_one(runs, samples, tmp_path):
    one, two = Store(tmp_path / "one"), Store(tmp_path / "two")
    quiet(runs, samples, one)
    used = quiet(runs, samples, two, n_jobs=2)
    for run in runs:
        first, second = (dict(store.read(run)["measures"], seconds=0, cpu_seconds=0) for store in (one, two))
        assert first == second
    assert used.processes == 2
    assert used.peak > pool.peak_memory() + (1 << 26)


def test_run_that_raises_is_contained_and_tried_again(runs, samples, tmp_path, monkeypatch):
    store, execute = Store(tmp_path), pool.execute_path

    def unlucky(task, *others):
        if runs[0] in task:
            raise RuntimeError("no luck today")
        return execute(task, *others)

    monkeypatch.setattr(pool, "execute_path", unlucky)
    quiet(runs, samples, store)
    assert store.read(runs[0]) is None
    text = store.failure(runs[0]).read_text(encoding="utf-8")
    assert "RuntimeError: no luck today" in text
    assert '"method": "LSVM"' in text
    assert all(store.read(run) is not None for run in runs[1:])
    monkeypatch.undo()
    quiet(runs[:1], samples, store)
    assert store.read(runs[0]) is not None
    assert not store.failure(runs[0]).exists()


def test_run_that_takes_its_process_with_it_is_found_and_contained(runs, samples, tmp_path, monkeypatch):
    store, dispatched, calls = Store(tmp_path), pool._dispatched, []
    deadly = runs[1]

    def dying(left, *others):
        """One run is done, then the deadly one is begun beside another, and the pool breaks."""
        calls.append(list(left))
        if deadly not in left:
            yield from dispatched(left, *others)
            return
        yield from dispatched([run for run in left if run != deadly][:1], *others)
        for run in [deadly, *left[2:3]]:
            store.begin(run)
        raise BrokenProcessPool("a worker process was killed")

    monkeypatch.setattr(pool, "_dispatched", dying)
    quiet(runs, samples, store)
    assert calls == [runs, runs[3:], [runs[1]], [runs[2]]]
    assert "its process ended without a word" in store.failure(deadly).read_text(encoding="utf-8")
    assert [store.read(run) is not None for run in runs] == [True, False, *[True] * (len(runs) - 2)]
    assert not list((tmp_path / "running").iterdir())


def test_pool_that_breaks_without_a_run_under_way_is_not_tried_for_ever(runs, samples, tmp_path, monkeypatch):
    def broken(*_):
        raise BrokenProcessPool("no process can be started")

    monkeypatch.setattr(pool, "_dispatched", broken)
    with pytest.raises(BrokenProcessPool, match="no process can be started"):
        quiet(runs, samples, Store(tmp_path))


def test_interruption_keeps_what_is_done(runs, samples, tmp_path, monkeypatch):
    store, execute, done = Store(tmp_path), pool.execute_path, []

    def interrupted(task, *others):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(task)
        return execute(task, *others)

    monkeypatch.setattr(pool, "execute_path", interrupted)
    with pytest.raises(KeyboardInterrupt):
        quiet(runs, samples, store)
    assert sum(store.read(run) is not None for run in runs) == 2
    assert not list((tmp_path / "running").iterdir())


def test_damaged_result_is_named_and_counts_as_not_done(runs, tmp_path, caplog):
    store = Store(tmp_path)
    store.path(runs[0]).parent.mkdir(parents=True)
    store.path(runs[0]).write_text('{"measures": ')
    assert store.read(runs[0]) is None
    assert f"{runs[0].key}.json is damaged" in caplog.text


def test_a_path_over_c_gives_what_fit_path_gives_and_shares_its_first_run(small, digits, samples, tmp_path):
    protocol = small("lvmdc.LSVM", C=(10.0, 0.1, 1.0), losses={"overlap": {"_target_": "lvmdc.OverlapLoss"}}, folds=1, inner_folds=0)
    anew, path = (plan_runs(dataclasses.replace(protocol, path=along), digits.key) for along in (False, True))
    store = Store(tmp_path)
    quiet(path, samples, store)
    assert store.read(anew[1]) is not None  # the smallest C starts anew in any case
    assert store.read(anew[0]) is None
    train, _ = path[0].division.parts(digits.y, digits.groups)
    learner = LSVM(OverlapLoss(), tol=0.1, max_iter=5, seed=0)
    models = fit_path(learner, digits.candidates.subset(train), digits.y[train], [0.1, 1.0, 10.0])
    found = {run.setting("C"): store.read(run)["measures"] for run in path}
    assert [found[model.C]["objective"] for model in models] == [model.objective_ for model in models]
    # One run alone goes the same way.
    store.path(path[0]).unlink()
    quiet(path[:1], samples, store)
    assert store.read(path[0])["measures"]["objective"] == found[10.0]["objective"]
    assert store.read(path[0])["run"]["before"] == [0.1, 1.0]
