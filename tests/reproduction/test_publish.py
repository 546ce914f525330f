"""docs/RESULTS.md is made from the facts of all published figures; what is written by hand around them stays."""

import dataclasses
import json

import pytest

from lvmdc.reproduction import Method, Protocol, execute, plan_runs
from lvmdc.reproduction.protocol import noisy
from lvmdc.reproduction.report import Report
from lvmdc.reproduction.summary import losses_table, publish, section, significance_table, standing, write_summary

LOSSES = {"overlap": {"_target_": "lvmdc.OverlapLoss"}}


@pytest.fixture(scope="module")
def report(digits):
    """Two methods on two folds, with noise."""
    methods = [Method(name, f"lvmdc.{name}", {"tol": 0.1, "max_iter": 5}, {"C": [1.0]}) for name in ("LSVM", "DISC", "Supervised")]
    protocol = Protocol(methods, LOSSES, folds=2, inner_folds=1)
    results = [(run, execute(run, digits)) for run in plan_runs(protocol, digits.key)]
    made = Report(
        "figure_1", "Figure 1", "Data. Supervision in training: labels.", "lvmdc reproduce", protocol, {}, results, "DISC", ["LSVM"]
    )
    copies = [(run, execute(run, digits)) for run in noisy(made.reported, 1)]
    return dataclasses.replace(made, noise=copies)


def test_a_figure_leaves_its_page_its_chart_and_its_facts(report, tmp_path):
    path = publish(tmp_path, report, b"png")
    assert (tmp_path / "results" / "figure_1.png").read_bytes() == b"png"
    page = (tmp_path / "results" / "figure_1.md").read_text()
    assert page.startswith("# Figure 1\n")
    assert "overlap loss" in page
    text = path.read_text()
    assert "| Figure 1" in text
    assert "labels" in text
    for name in ("overview", "calibration"):
        assert (tmp_path / "results" / f"{name}.png").stat().st_size > 0
    assert not (tmp_path / "results" / "curves.png").exists()  # the paper has no figure of this


def test_the_numbers_are_those_of_the_runs(report, tmp_path):
    publish(tmp_path, report, b"png")
    found = json.loads((tmp_path / "results" / "figure_1.json").read_text())
    for cell in found["cells"]:
        runs = [result for run, result in report.results if run.method == cell["method"] and not run.inner]
        assert cell["test"] == [result["measures"]["loss"] for result in runs]
        near = [result["measures"]["loss"] for run, result in report.noise if run.method == cell["method"]]
        assert cell["spread"] == pytest.approx(sum(abs(a - b) for a, b in zip(cell["test"], near, strict=True)) / 2)
        assert ("calibration" in cell) == (cell["method"] == "DISC")


def test_the_page_is_made_from_the_facts_of_all_figures_and_hand_written_text_stays(report, tmp_path):
    path = publish(tmp_path, report, b"png")
    path.write_text(path.read_text().replace("# Results", "# Results\n\nWritten by hand."))
    other = json.loads((tmp_path / "results" / "figure_1.json").read_text()) | {"name": "digits", "title": "Digits"}
    (tmp_path / "results" / "digits.json").write_text(json.dumps(other))
    text = write_summary(tmp_path).read_text()
    assert "Written by hand." in text
    assert text.index("| Digits") < text.index("| Figure 1")
    assert write_summary(tmp_path).read_text() == text


@pytest.mark.parametrize("text", ["<!-- figures: begin -->", "<!-- figures: end --><!-- figures: begin -->", "nothing"])
def test_broken_markers_are_refused_and_nothing_is_written(text, tmp_path):
    (tmp_path / "RESULTS.md").write_text(text)
    with pytest.raises(ValueError, match=r"RESULTS\.md must hold <!-- figures: begin --> and <!-- figures: end --> once"):
        write_summary(tmp_path)
    assert (tmp_path / "RESULTS.md").read_text() == text
    assert not list(tmp_path.rglob("*.png"))


def facts_of(losses, known=("Supervised",)):
    """Made-up facts of a figure: method → test losses by fold."""
    same = {"loss": "overlap", "spread": None, "start": "likelihood", "prior": "none"}
    cells = [same | {"method": m, "known_h": m in known, "test": v} for m, v in losses.items()]
    own = {"name": "made_up", "title": "Made up", "about": "", "command": "", "measured": "", "prior": None, "runs": 1, "cpu_seconds": 1.0}
    return own | {"compare": "DISC", "test_share": 0.4, "paper": {}, "cells": cells, "curves": {}}


def test_the_lowest_system_that_does_not_know_h_is_marked():
    found = [facts_of({"LSVM": [0.5, 0.7], "DISC": [0.4, 0.6], "Supervised": [0.1, 0.3], "LSVM, random start": [0.0, 0.0]})]
    table = losses_table(found)
    assert table.heads == ["data", "loss", "LSVM", "DISC", "Supervised"]
    assert table.cells[0][2:] == ["60.0 ± 14.1", "● 50.0 ± 14.1", "20.0 ± 14.1"]
    assert "DISC is lowest in 1, and lowest or within half a point of it in 1." in standing(found)
    worse = standing([facts_of({"LSVM": [0.2, 0.2], "DISC": [0.4, 0.6]})])
    assert "lowest in 0, and lowest or within half a point of it in 0" in worse
    assert "Made up, overlap loss: LSVM by 30.0 points" in worse


def test_differences_are_those_from_the_same_start():
    found = [facts_of({"LSVM": [0.5, 0.7], "DISC": [0.4, 0.5], "LSVM, random start": [0.9, 0.9], "DISC, random start": [0.5, 0.6]})]
    text = section(found, set())
    assert "DISC − LSVM" in text
    assert "−15.0" in text  # (0.4 + 0.5 − 0.5 − 0.7) / 2
    assert "−35.0" in text  # (0.5 + 0.6 − 0.9 − 0.9) / 2
    assert "+" not in text.split("What is significant")[1].split("What went in")[0]
    gaps = {(row[3], row[4]) for row in significance_table(found).cells}
    assert gaps == {("DISC − LSVM", "−15.0"), ("DISC − LSVM", "−35.0")}


def test_methods_that_share_runs_keep_their_own_rows_and_their_time_counts_once(digits):
    methods = [
        Method("LSVM", "lvmdc.LSVM", {"tol": 0.1, "max_iter": 5}, {"C": [0.01, 1.0]}),
        Method("LSVM, C = 1", "lvmdc.LSVM", {"tol": 0.1, "max_iter": 5}, {"C": [1.0]}),
    ]
    protocol = Protocol(methods, LOSSES, folds=2, inner_folds=0)
    plan = plan_runs(protocol, digits.key)
    results = {run.key: execute(run, digits) for run in plan}
    assert len(results) == 4 < len(plan) == 6
    made = Report("a", "A", "", "", protocol, {}, [(run, results[run.key]) for run in plan], None, [])
    assert [run.method for run in made.reported] == ["LSVM"] * 2 + ["LSVM, C = 1"] * 2
    assert made.n_runs == 4
    assert made.cpu_seconds == pytest.approx(sum(result["measures"]["cpu_seconds"] for result in results.values()))
    copies = [(run, execute(run, digits)) for run in noisy(made.reported, 1)]
    noted = dataclasses.replace(made, noise=copies)
    for summary in noted.summaries:
        assert len(summary.noise) == 2
        near = [result["measures"]["loss"] for run, result in copies if run.method == summary.method]
        expected = [abs(a - b) for a, b in zip(summary.reported["loss"], near, strict=True)]
        assert summary.spread == pytest.approx(sum(expected) / 2)
