"""All runs of a protocol, and the order in which they are worth doing."""

from __future__ import annotations

import json
from collections.abc import Sequence

from lvmdc.reproduction.protocol import Division, Method, Plain, Protocol, Run, Settings

SEED_STEP = 100  # between the starts of one fold and those of the next: more than anyone's n_init


def plan_runs(protocol: Protocol, data: str) -> list[Run]:
    """Every run of the protocol on data of that content key: loss by loss, method by method, those of the folds, then the inner ones.

    >>> from lvmdc.reproduction.protocol import Method
    >>> methods = [Method("LSVM", "lvmdc.LSVM", {}, {"C": [1, 10]})]
    >>> protocol = Protocol(methods, {"zero_one": {"_target_": "lvmdc.ZeroOneLoss"}}, folds=5, inner_folds=2)
    >>> runs = plan_runs(protocol, "key of the data")
    >>> len([run for run in runs if not run.inner]), len([run for run in runs if run.inner])
    (10, 20)
    """
    runs: list[Run] = []
    for loss, spec in protocol.losses.items():
        text = json.dumps(dict(spec), sort_keys=True)
        for method in protocol.methods:
            for division in _divisions(protocol):
                fixed = dict(method.settings) | ({} if division.inner is None else dict(protocol.inner_settings))
                fixed["seed"] = protocol.seed + SEED_STEP * division.fold
                for point in method.points():
                    settings = tuple(sorted(_once(fixed | dict(point)).items()))
                    before = _smaller(method, point) if protocol.path else ()
                    runs.append(Run(method.name, method.learner, loss, text, settings, point, division, data, before))
    return runs


def _smaller(method: Method, point: Settings) -> tuple[float, ...]:
    """The values of C in the grid below that of a point, in order."""
    C = dict(point).get("C")
    numbers = [float(value) for value in method.grid.get("C", ()) if isinstance(value, int | float)]
    return tuple(sorted(value for value in numbers if isinstance(C, int | float) and value < C))


def _once(settings: dict[str, Plain]) -> dict[str, Plain]:
    """One start where all would be the same: nothing but a random start, and the stochastic θ block, looks at the seed."""
    same = settings.get("init") in ("central", "uniform") and settings.get("theta_solver") != "ssd"
    return settings | {"n_init": 1} if same and "n_init" in settings else settings


def _divisions(protocol: Protocol) -> list[Division]:
    outer = [Division(fold, protocol.fraction, protocol.split_seed) for fold in range(protocol.folds)]
    inner = [Division(d.fold, d.fraction, d.seed, i, protocol.inner_fraction) for d in outer for i in range(protocol.inner_folds)]
    return outer + inner


def tasks(runs: Sequence[Run]) -> list[list[Run]]:
    """The runs as they are handed to processes, the longest first, so that no process is left with a long one at the end.

    Training takes the longer the larger C is, and the more samples it has. A task holds one run, or, in order, those along one path over C.

    >>> from lvmdc.reproduction.protocol import Method
    >>> methods = [Method("LSVM", "lvmdc.LSVM", {}, {"C": [1, 10]})]
    >>> runs = plan_runs(Protocol(methods, {"zero_one": {"_target_": "lvmdc.ZeroOneLoss"}}, folds=1, inner_folds=1), "data")
    >>> [(task[0].setting("C"), task[0].inner) for task in tasks(runs)]
    [(10, False), (10, True), (1, False), (1, True)]
    """

    def length(run: Run) -> tuple[float, bool]:
        C = run.setting("C", 1.0)
        return -float(C) if isinstance(C, int | float) else 0.0, run.inner

    paths: dict[object, list[Run]] = {}
    for run in sorted(runs, key=length):
        others = tuple(setting for setting in run.settings if setting[0] != "C")
        along = (run.learner, run.loss_spec, others, run.division, run.data)
        # The first run of a path is one that starts anew, and belongs to the path only if there is one.
        path = paths.get(along)
        if path is not None and run.setting("C") in path[-1].before:
            path.insert(0, run)
        else:
            paths[along if run.before else run] = [run]
    return list(paths.values())


def describe_plan(protocol: Protocol, runs: Sequence[Run]) -> str:
    """How many runs there are, and of what.

    >>> from lvmdc.reproduction.protocol import Method
    >>> methods = [Method("LSVM", "lvmdc.LSVM", {}, {"C": [1, 10]})]
    >>> protocol = Protocol(methods, {"zero_one": {"_target_": "lvmdc.ZeroOneLoss"}}, folds=5, inner_folds=2)
    >>> describe_plan(protocol, plan_runs(protocol, "data"))
    '30 runs: 10 on 5 folds (LSVM 10) and 20 on 2 validation folds of each'
    """
    outer = [run for run in runs if not run.inner]
    each = ", ".join(f"{m.name} {sum(run.method == m.name for run in outer)}" for m in protocol.methods)
    rest = len(runs) - len(outer)
    inner = f" and {rest} on {protocol.inner_folds} validation folds of each" if rest else ""
    return f"{len(runs)} runs: {len(outer)} on {protocol.folds} folds ({each}){inner}"
