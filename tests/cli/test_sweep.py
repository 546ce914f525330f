"""Many runs in one table."""

import json
from pathlib import Path

import pytest

from lvmdc.cli.table import collect


def finished_run(folder, overrides, loss, error):
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra" / "overrides.yaml").write_text("".join(f"- {word}\n" for word in overrides))
    (folder / "results.json").write_text(json.dumps({"test/loss": loss, "test/error": error, "objective": 1.0}))


def test_repetitions_are_averaged_and_settings_kept_apart(tmp_path):
    for i, (method, fold, loss) in enumerate([("disc", 0, 0.2), ("disc", 1, 0.4), ("lsvm", 0, 0.9), ("lsvm", 1, 0.9)]):
        finished_run(tmp_path / str(i), ["experiment=minimal", f"method={method}", f"data.fold={fold}"], loss, loss / 2)
    (tmp_path / "4").mkdir()  # one that did not finish
    table = collect(tmp_path)
    assert list(table.heads) == ["setting", "runs", "loss %", "class error %"]
    rows = {row[0]: row[1:] for row in table.cells}
    assert set(rows) == {"method=disc", "method=lsvm"}
    assert rows["method=disc"][0] == "2"
    assert rows["method=disc"][1].split() == ["30.00", "±", "14.14"]
    assert rows["method=lsvm"][2].split() == ["45.00", "±", "0.00"]


def test_folder_without_finished_runs_is_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no finished run"):
        collect(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        collect(tmp_path / "nowhere")


def test_a_sweep_of_version_0_1_is_still_read():
    table = collect(Path(__file__).parent / "sweep_0_1")  # two seeds, written by version 0.1
    assert list(table.heads) == ["setting", "runs", "loss %", "class error %", "CorLoc %", "mean overlap %"]
    ((setting, runs, loss, error, *_),) = table.cells
    assert (setting, runs) == ("all", "2")
    assert loss.split() == ["62.50", "±", "0.00"]
    assert error.split() == ["33.33", "±", "0.00"]


def test_a_single_run_has_no_deviation_and_a_missing_measure_is_a_dash(tmp_path):
    for i, (method, error) in enumerate([("disc", 0.2), ("lsvm", None)]):
        finished_run(tmp_path / str(i), [f"method={method}"], 0.5, error)
    assert [row[1:] for row in collect(tmp_path).cells] == [["1", "50", "20"], ["1", "50", "–"]]
