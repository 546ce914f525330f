"""Tables of results: the same cells in every form."""

import numpy as np
import pytest
import torch

from lvmdc.reporting import results_table

ROWS = [
    {"method": "DISC", "C": 0.1, "loss": (0.4227, 0.0312), "objective": 3.14159, "passes": 12},
    {"method": "LSVM", "C": 10.0, "loss": 0.4493, "objective": 112.5},
]


def test_all_forms_show_the_same_cells():
    table = results_table(ROWS, percent=["loss"])
    expected = [
        ["method", "C", "loss", "objective", "passes"],
        ["DISC", "0.1", "42.3 ± 3.1 %", "3.1", "12"],
        ["LSVM", "10", "44.9 %", "112.5", "–"],
    ]
    assert [list(table.heads), *map(list, table.cells)] == expected
    lines = [line.strip("|").split("|") for line in table.markdown().splitlines()]
    assert [[cell.strip() for cell in line] for line in lines[:1] + lines[2:]] == expected
    assert [cell.endswith(":") for cell in lines[1]] == list(table.numeric)
    lines = table.text().splitlines()
    assert [line.split("  ")[0] for line in lines] == ["method", "--------", "DISC", "LSVM"]
    assert all(cell in line for line, row in zip([lines[0], *lines[2:]], expected, strict=True) for cell in row)


def test_numbers_of_a_column_have_the_same_decimals_and_are_aligned_right():
    text = results_table([{"v": 0.12345}, {"v": 9.9}, {"v": -3.0}]).text()
    assert text.splitlines() == ["     v", "------", " 0.123", " 9.900", "-3.000"]


@pytest.mark.parametrize(
    ("values", "cells"),
    [
        ([0.001, 1.0, 1000.0], ["0.001", "1", "1000"]),
        ([1.23456e-7, 3e-9], ["1.235e-07", "3.000e-09"]),
        ([float("nan"), 1.25], ["nan", "1.250"]),
        ([float("inf"), float("-inf")], ["inf", "-inf"]),
        ([torch.tensor(2.5), np.float32(0.125), np.int64(3)], ["2.500", "0.125", "3.000"]),
        ([True, False], ["yes", "no"]),
        ([None, "a"], ["–", "a"]),
        ([0.0, 0.0], ["0", "0"]),
        ([12345678, 3], ["12345678", "3"]),
    ],
)
def test_numbers_are_shown_as_such(values, cells):
    assert [row[0] for row in results_table([{"v": v} for v in values]).cells] == cells


def test_columns_can_be_chosen_ordered_and_renamed():
    table = results_table(ROWS, columns={"objective": "objective (11)", "method": "method"})
    assert table.heads == ["objective (11)", "method"]
    assert results_table(ROWS, columns=["C"]).cells == [["0.1"], ["10"]]
    with pytest.raises(ValueError, match=r"percent must name columns of .* but it names 'los'"):
        results_table(ROWS, percent=["los"])


def test_hostile_names_stay_text():
    name = '<script>alert(1)</script> & "q" | *b* [l](u) `c` _i_\n\x1b[31m\udc80'
    table = results_table([{"class": name}])
    markdown = table.markdown()
    assert len(markdown.splitlines()) == 3
    assert r"\| \*b\* \[l\](u) \`c\` \_i\_" in markdown
    assert "<script" not in markdown
    assert markdown.encode()
    assert "\x1b" not in table.text()
    assert len(table.text().splitlines()) == 3


def test_wide_letters_are_aligned():
    lines = results_table([{"class": "鹿", "n": 1}, {"class": "deer", "n": 2}]).text().splitlines()
    assert lines[2:] == ["鹿         1", "deer       2"]


def test_no_rows_give_an_empty_table():
    table = results_table([])
    assert (table.text().strip(), table.cells) == ("", [])
    assert results_table([], columns=["a", "b"]).text().splitlines()[0].split() == ["a", "b"]
