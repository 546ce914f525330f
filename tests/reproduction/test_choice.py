"""Tables against numbers worked out by hand, p-values against SciPy."""

import csv
import io

import numpy as np
import pytest
from scipy import stats

from lvmdc.reproduction import Method, Protocol, best_on_test, chosen_by_validation, curve, paired_test
from lvmdc.reproduction.summary import compare, summarise
from lvmdc.reproduction.tables import comparison_table, runs_csv, summary_table


def outcomes(run, losses, inner=None, method="LSVM"):
    """{C: test loss by fold} and {C: validation losses by fold} as results of runs."""
    found = {}
    for C, values in losses.items():
        for fold, loss in enumerate(values):
            measures = {"loss": loss, "error": loss / 2, "corloc": 1 - loss, "loss_annotated": loss}
            found[run(method, fold=fold, C=C)] = measures
    for C, folds in (inner or {}).items():
        for fold, values in enumerate(folds):
            for i, loss in enumerate(values):
                found[run(method, fold=fold, C=C, inner=i)] = {"loss": loss}
    return found


def test_best_on_test_is_the_lowest_mean(run):
    found = outcomes(run, {0.1: [0.5, 0.7], 1.0: [0.4, 0.6], 10.0: [0.1, 1.0]})
    best = best_on_test(found, "LSVM", "zero_one", folds=2)
    assert best.points == [(("C", 1.0),)] * 2
    assert best.mean("loss") == pytest.approx(0.5)
    assert best.deviation("loss") == pytest.approx(0.1 * np.sqrt(2))


def test_point_that_lacks_a_fold_is_not_chosen(run):
    found = outcomes(run, {0.1: [0.5, 0.7], 1.0: [0.1]})
    assert best_on_test(found, "LSVM", "zero_one", folds=2).points[0] == (("C", 0.1),)
    assert best_on_test(outcomes(run, {1.0: [0.1]}), "LSVM", "zero_one", folds=2) is None


def test_validation_chooses_by_its_own_losses_fold_by_fold(run):
    # On the test part C = 1 is better in both folds; validation prefers 0.1 in fold 0, by the mean of its two divisions.
    inner = {0.1: [[0.2, 0.4], [0.9, 0.9]], 1.0: [[0.1, 0.9], [0.3, 0.3]]}
    found = outcomes(run, {0.1: [0.8, 0.8], 1.0: [0.5, 0.6]}, inner)
    chosen = chosen_by_validation(found, "LSVM", "zero_one", folds=2, inner_folds=2)
    assert chosen.points == [(("C", 0.1),), (("C", 1.0),)]
    assert chosen.values("loss").tolist() == [0.8, 0.6]
    assert not any(r.inner for r in chosen.runs)


def test_validated_choice_does_not_depend_on_test_losses(run):
    inner = {0.1: [[0.2], [0.9]], 1.0: [[0.5], [0.3]]}
    chosen = [
        chosen_by_validation(outcomes(run, losses, inner), "LSVM", "zero_one", folds=2, inner_folds=1).points
        for losses in ({0.1: [0.8, 0.8], 1.0: [0.5, 0.6]}, {0.1: [0.0, 0.0], 1.0: [1.0, 1.0]})
    ]
    assert chosen[0] == chosen[1]


def test_validation_that_is_not_complete_chooses_nothing(run):
    found = outcomes(run, {0.1: [0.8, 0.8]}, {0.1: [[0.2, 0.4], [0.9]]})
    assert chosen_by_validation(found, "LSVM", "zero_one", folds=2, inner_folds=2) is None


def test_curve_has_a_point_for_each_C_and_the_best_of_other_arguments(run):
    found = {}
    for C, J, loss in ((10.0, 0.1, 0.6), (1.0, 0.1, 0.5), (1.0, 0.01, 0.3)):
        for fold in range(2):
            found[run("DISC", fold=fold, C=C, J=J)] = {"loss": loss}
    points = curve(found, "DISC", "zero_one", folds=2)
    assert [(C, choice.mean("loss"), dict(choice.points[0])["J"]) for C, choice in points] == [(1.0, 0.3, 0.01), (10.0, 0.6, 0.1)]


def test_p_values_are_those_of_scipy():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.5, 0.1, 5), rng.normal(0.6, 0.1, 5)
    test = paired_test(a, b, test_share=0.4)
    assert test.p == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert test.difference == pytest.approx(np.mean(a - b))
    # Nadeau and Bengio: the variance of the mean grows from 1/n to 1/n + n_test/n_train.
    t = stats.ttest_rel(a, b).statistic * np.sqrt((1 / 5) / (1 / 5 + 0.4 / 0.6))
    assert test.corrected == pytest.approx(2 * stats.t.sf(abs(t), 4))
    assert test.corrected > test.p


def test_nothing_is_tested_where_there_is_no_scatter():
    assert paired_test(np.array([0.5]), np.array([0.7])).p is None
    assert paired_test(np.array([0.5, 0.6]), np.array([0.5, 0.6])).p is None


def test_tables_hold_the_numbers_worked_out_by_hand(run):
    protocol = Protocol([Method(name, f"lvmdc.{name}") for name in ("LSVM", "DISC")], {"zero_one": {}}, folds=2, inner_folds=1)
    inner = {0.1: [[0.2], [0.9]], 1.0: [[0.5], [0.3]]}
    found = outcomes(run, {0.1: [0.8, 0.8], 1.0: [0.5, 0.6]}, inner)
    found |= outcomes(run, {0.1: [0.3, 0.5], 1.0: [0.3, 0.6]}, inner, method="DISC")
    summaries = summarise(protocol, found, {"zero_one": {"DISC": (47.76, 2.53)}})
    rows = summary_table(summaries).cells
    assert rows[0][:5] == ["0/1 loss", "LSVM", "–", "55.00 ± 7.07", "C = 1"]
    assert rows[0][7:9] == ["70.00 ± 14.14", "C = 0.1, 1"]
    assert rows[1][:7] == ["0/1 loss", "DISC", "47.76 ± 2.53", "40.00 ± 14.14", "C = 0.1", "20.00 ± 7.07", "60.00 ± 14.14"]
    assert rows[1][7:9] == ["45.00 ± 21.21", "C = 0.1, 1"]
    (row,) = comparison_table(compare(summaries, "DISC", ["LSVM"], fraction=0.6)).cells
    best, chosen = stats.ttest_rel([0.3, 0.5], [0.5, 0.6]).pvalue, stats.ttest_rel([0.3, 0.6], [0.8, 0.6]).pvalue
    assert row[:4] == ["0/1 loss", "DISC − LSVM", "−15.00 ± 7.07", f"{best:.3f}"]
    assert row[5:7] == ["−25.00 ± 35.36", f"{chosen:.3f}"]
    assert row[-1] == "2"


def test_without_validation_the_table_has_no_columns_for_it(run):
    protocol = Protocol([Method("LSVM", "lvmdc.LSVM")], {"zero_one": {}}, folds=2, inner_folds=0)
    table = summary_table(summarise(protocol, outcomes(run, {1.0: [0.5, 0.6]}), {}))
    assert "chosen on validation" not in table.heads
    assert table.cells[0][-1] == "55.00 ± 7.07"
    assert comparison_table([]).heads == ["loss", "compared", "gap, best on test", "p", "p corrected", "folds"]


def test_csv_is_tidy(run):
    done, left = run("LSVM", C=1.0), run("DISC", C=1.0, J=0.1, inner=0)
    text = runs_csv([(done, {"measures": {"loss": 0.5}, "converged": False, "warnings": ['stopped, with "quotes"']}), (left, None)])
    first, second = csv.DictReader(io.StringIO(text))
    assert first["method"], first["measured_on"] == ("LSVM", "test")
    assert (first["loss"], first["J"], first["converged"], first["warnings"]) == ("0.5", "", "False", 'stopped, with "quotes"')
    assert (second["inner"], second["measured_on"], second["done"], second["loss"]) == ("0", "validation", "no", "")
