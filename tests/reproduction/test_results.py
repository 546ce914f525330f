"""Selection and tables against numbers worked out by hand, p-values against SciPy and against brute force."""

import csv
import io
import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from lvmdc.reproduction import Method, Protocol, best_on_test, chosen_by_validation, curve, paired_test, runs_frame
from lvmdc.reproduction.results import calibrate, summarise
from lvmdc.reproduction.tables import comparison_table, summary_table


@pytest.fixture
def outcomes(run):
    """`outcomes(losses, inner, method)`: results of runs from {C: test loss by fold} and {C: validation losses by fold}."""

    def made(losses, inner=None, method="LSVM"):
        found = []
        for C, values in losses.items():
            for fold, loss in enumerate(values):
                measures = {"loss": loss, "error": loss / 2, "corloc": 1 - loss, "loss_annotated": loss}
                found.append((run(method, fold=fold, C=C), {"measures": measures}))
        for C, folds in (inner or {}).items():
            for fold, i in ((fold, i) for fold, values in enumerate(folds) for i in range(len(values))):
                found.append((run(method, fold=fold, C=C, inner=i), {"measures": {"loss": folds[fold][i]}}))
        return found

    return made


def test_best_on_test_is_the_lowest_mean(outcomes):
    best = best_on_test(runs_frame(outcomes({0.1: [0.5, 0.7], 1.0: [0.4, 0.6], 10.0: [0.1, 1.0]})), folds=2)
    assert best["C"].tolist() == [1.0, 1.0]
    assert best["fold"].tolist() == [0, 1]
    assert best["loss"].tolist() == [0.4, 0.6]


def test_point_that_lacks_a_fold_is_not_chosen(outcomes):
    assert best_on_test(runs_frame(outcomes({0.1: [0.5, 0.7], 1.0: [0.1]})), folds=2)["C"].tolist() == [0.1, 0.1]
    assert best_on_test(runs_frame(outcomes({1.0: [0.1]})), folds=2) is None


def test_validation_chooses_by_its_own_losses_in_each_fold(outcomes):
    # On the test part C = 1 is better in both folds; validation prefers 0.1 in fold 0, by the mean of its two divisions.
    inner = {0.1: [[0.2, 0.4], [0.9, 0.9]], 1.0: [[0.1, 0.9], [0.3, 0.3]]}
    chosen = chosen_by_validation(runs_frame(outcomes({0.1: [0.8, 0.8], 1.0: [0.5, 0.6]}, inner)), folds=2, inner_folds=2)
    assert chosen["C"].tolist() == [0.1, 1.0]
    assert chosen["loss"].tolist() == [0.8, 0.6]
    assert (chosen["measured_on"] == "test").all()


def test_validated_choice_does_not_depend_on_test_losses(outcomes):
    inner = {0.1: [[0.2], [0.9]], 1.0: [[0.5], [0.3]]}
    chosen = [
        chosen_by_validation(runs_frame(outcomes(losses, inner)), folds=2, inner_folds=1)["C"].tolist()
        for losses in ({0.1: [0.8, 0.8], 1.0: [0.5, 0.6]}, {0.1: [0.0, 0.0], 1.0: [1.0, 1.0]})
    ]
    assert chosen[0] == chosen[1] == [0.1, 1.0]


def test_incomplete_validation_chooses_nothing(outcomes):
    found = runs_frame(outcomes({0.1: [0.8, 0.8]}, {0.1: [[0.2, 0.4], [0.9]]}))
    assert chosen_by_validation(found, folds=2, inner_folds=2) is None


def test_choices_are_those_of_brute_force_on_random_losses(outcomes):
    rng = np.random.default_rng(0)
    grid = (0.1, 1.0, 10.0, 100.0)
    test = {C: rng.random(3).tolist() for C in grid}
    inner = {C: rng.random((3, 2)).tolist() for C in grid}
    runs = runs_frame(outcomes(test, inner))
    assert best_on_test(runs, 3)["loss"].tolist() == min(test.values(), key=np.mean)
    by_hand = [min(grid, key=lambda C, fold=fold: np.mean(inner[C][fold])) for fold in range(3)]
    assert chosen_by_validation(runs, 3, 2)["C"].tolist() == by_hand


def test_curve_has_a_point_for_each_C_and_the_best_of_other_arguments(run):
    found = []
    for C, J, loss in ((10.0, 0.1, 0.6), (1.0, 0.1, 0.5), (1.0, 0.01, 0.3)):
        found += [(run("DISC", fold=fold, C=C, J=J), {"measures": {"loss": loss + 0.1 * fold}}) for fold in range(2)]
    points = curve(runs_frame(found), folds=2)
    assert points.index.tolist() == [1.0, 10.0]
    assert points["mean"].tolist() == pytest.approx([0.35, 0.65])
    assert points["std"].tolist() == pytest.approx([0.1 / np.sqrt(2)] * 2)


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


def test_p_value_is_near_that_of_all_sign_flips():
    gaps = np.random.default_rng(1).normal(0.4, 1.0, 14)
    means = [abs(np.mean(gaps * signs)) for signs in itertools.product((-1, 1), repeat=len(gaps))]
    exact = np.mean(np.array(means) >= abs(gaps.mean()) - 1e-12)
    assert paired_test(gaps, np.zeros_like(gaps)).p == pytest.approx(exact, abs=0.03)


def test_nothing_is_tested_without_spread():
    assert paired_test(np.array([0.5]), np.array([0.7])).p is None
    assert paired_test(np.array([0.5, 0.6]), np.array([0.5, 0.6])).p is None
    with pytest.raises(ValueError, match="a and b must have one shape"):
        paired_test(np.array([0.5]), np.array([0.7, 0.6]))


def test_tables_hold_the_numbers_worked_out_by_hand(outcomes):
    methods = [Method(name, f"lvmdc.{name}", {}, {"C": [0.1, 1.0]}) for name in ("LSVM", "DISC")]
    protocol = Protocol(methods, {"zero_one": {}}, folds=2, inner_folds=1)
    inner = {0.1: [[0.2], [0.9]], 1.0: [[0.5], [0.3]]}
    found = outcomes({0.1: [0.8, 0.8], 1.0: [0.5, 0.6]}, inner) + outcomes({0.1: [0.3, 0.5], 1.0: [0.3, 0.6]}, inner, method="DISC")
    summaries = summarise(protocol, runs_frame(found), {"zero_one": {"DISC": (47.76, 2.53)}})
    table = summary_table(summaries)
    rows = [dict(zip(table.heads, row, strict=True)) for row in table.cells]
    assert [(row["loss"], row["method"], row["paper"]) for row in rows] == [("0/1 loss", "LSVM", "–"), ("0/1 loss", "DISC", "47.76 ± 2.53")]
    assert [(row["best on test"], row["at"]) for row in rows] == [("55.00 ± 7.07", "C = 1"), ("40.00 ± 14.14", "C = 0.1")]
    assert [row["chosen on validation"] for row in rows] == ["70.00 ± 14.14", "45.00 ± 21.21"]
    assert [row["at, by fold"] for row in rows] == ["C = 0.1, 1", "C = 0.1, 1"]
    # Class error and CorLoc are those of the runs that validation chose.
    assert [(row["class error"], row["CorLoc"]) for row in rows] == [("35.00 ± 7.07", "30.00 ± 14.14"), ("22.50 ± 10.61", "55.00 ± 21.21")]
    (row,) = comparison_table(summaries, "DISC", ["LSVM"], test_share=0.4).cells
    best, chosen = stats.ttest_rel([0.3, 0.5], [0.5, 0.6]).pvalue, stats.ttest_rel([0.3, 0.6], [0.8, 0.6]).pvalue
    assert row[:4] == ["0/1 loss", "DISC − LSVM", "−15.00 ± 7.07", f"{best:.3f}"]
    assert row[5:7] == ["−25.00 ± 35.36", f"{chosen:.3f}"]
    assert row[-1] == "2"


def test_without_validation_the_table_has_no_columns_for_it(outcomes):
    protocol = Protocol([Method("LSVM", "lvmdc.LSVM", {}, {"C": [1.0]})], {"zero_one": {}}, folds=2, inner_folds=0)
    table = summary_table(summarise(protocol, runs_frame(outcomes({1.0: [0.5, 0.6]})), {}))
    assert "chosen on validation" not in table.heads
    assert dict(zip(table.heads, table.cells[0], strict=True))["best on test"] == "55.00 ± 7.07"


def test_every_row_says_where_h_started_and_which_prior_it_had(run):
    def of(fold, **settings):
        return run("LSVM", fold=fold, **settings), {"measures": {"loss": 0.5}}

    method = Method("LSVM", "lvmdc.LSVM", {}, {"C": [1.0]})
    protocol = Protocol([method], {"zero_one": {}}, folds=2, inner_folds=0)

    def shown(results, prior="centre"):
        summaries = summarise(protocol, runs_frame(results), {})
        table = summary_table([replace(s, validated=runs_frame(results)) for s in summaries], prior)
        row = dict(zip(table.heads, table.cells[0], strict=True))
        return row["start"], row.get("prior")

    assert shown([of(0, init="likelihood"), of(1, init="likelihood")]) == ("likelihood", "centre")
    assert shown([of(0, init="likelihood"), of(1, init="likelihood")], None) == ("likelihood", None)
    mixed = [of(0, init="likelihood", prior_strength=0.0), of(1, init="central", prior_strength=1.0)]
    assert shown(mixed) == ("likelihood 1, central 1", "centre 1, none 1")
    assert shown([of(0, init="random", n_init=5, prior_strength=0.0), of(1, init="random", n_init=5, prior_strength=0.0)]) == (
        "random, best of 5",
        "none",
    )


def test_csv_is_tidy(run):
    done, left = run("LSVM", C=1.0), run("DISC", C=1.0, J=0.1, inner=0)
    found = {"measures": {"loss": 0.5}, "converged": False, "warnings": ['stopped, with "quotes"']}
    first, second = csv.DictReader(io.StringIO(runs_frame([(done, found), (left, None)]).to_csv(index=False)))
    assert (first["method"], first["measured_on"], first["inner"]) == ("LSVM", "test", "")
    assert (first["loss"], first["J"], first["converged"], first["warnings"]) == ("0.5", "", "False", 'stopped, with "quotes"')
    assert (second["inner"], second["measured_on"], second["done"], second["loss"]) == ("0", "validation", "no", "")


def test_calibration_is_that_of_brute_force():
    rng = np.random.default_rng(0)
    runs = []
    for n in (50, 7):
        confidence = rng.random(n)
        runs.append({"confidence": confidence, "right": (rng.random(n) < confidence).astype(float), "of_truth": rng.random(n)})
    found = calibrate(runs, n_bins=5)
    pairs = [(c, r) for each in runs for c, r in zip(each["confidence"], each["right"], strict=True)]
    error = 0.0
    for i in range(5):
        inside = [(c, r) for c, r in pairs if i / 5 <= c < (i + 1) / 5]
        if inside:
            error += len(inside) / len(pairs) * abs(np.mean([c for c, _ in inside]) - np.mean([r for _, r in inside]))
    assert found.error == pytest.approx(error, abs=1e-5)
    assert sum(n for _, _, n in found.bins) == 57
    assert found.of_truth == pytest.approx(np.mean(np.concatenate([each["of_truth"] for each in runs])), abs=1e-5)
    assert calibrate([]) is None


def test_spread_is_the_mean_range_over_the_copies_of_each_fold(run):
    plain = [(run("LSVM", fold=fold), {"measures": {"loss": loss}}) for fold, loss in enumerate((0.5, 0.7))]
    copies = [(r, {"measures": {"loss": result["measures"]["loss"] + d}}) for r, result in plain for d in (-0.1, 0.2)]
    protocol = Protocol([Method("LSVM", "lvmdc.LSVM", {}, {"C": [1.0]})], {"zero_one": {"_target_": "lvmdc.ZeroOneLoss"}}, folds=2)
    summary = summarise(protocol, runs_frame(plain), {}, runs_frame(copies))[0]
    assert summary.spread == pytest.approx(0.3)
    assert summarise(protocol, runs_frame(plain), {})[0].spread is None
