"""All runs in one tidy CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping

from lvmdc.reproduction.run import Run


def runs_csv(rows: Iterable[tuple[Run, Mapping[str, object] | None]]) -> str:
    """One line for every run: what it was, whether it is done, its measures as fractions.

    >>> from lvmdc.reproduction import Division
    >>> run = Run("LSVM", "lvmdc.LSVM", "zero_one", "{}", (("C", 1.0),), (("C", 1.0),), Division(fold=0), "data")
    >>> print(runs_csv([(run, {"measures": {"loss": 0.5}, "converged": True})]).splitlines()[1].partition(",")[2])
    LSVM,zero_one,0,,test,1.0,yes,0.5,True,
    """
    listed = list(rows)
    names = list(dict.fromkeys(name for run, _ in listed for name, _ in run.settings))
    measures = list(dict.fromkeys(name for _, result in listed if result for name in _measures(result)))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["key", "method", "loss_name", "fold", "inner", "measured_on", *names, "done", *measures, "converged", "warnings"])
    for run, result in listed:
        division, settings, found = run.division, dict(run.settings), _measures(result) if result else {}
        what = [run.key, run.method, run.loss, division.fold, "" if division.inner is None else division.inner]
        what += ["validation" if run.inner else "test", *(settings.get(name, "") for name in names), "yes" if result else "no"]
        warned = result.get("warnings", []) if result else []
        assert isinstance(warned, list)
        writer.writerow(
            [*what, *(found.get(name, "") for name in measures), result.get("converged", "") if result else "", " | ".join(warned)]
        )
    return file.getvalue()


def _measures(result: Mapping[str, object]) -> Mapping[str, object]:
    measures = result["measures"]
    assert isinstance(measures, Mapping)
    return measures
