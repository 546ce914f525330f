"""Samples that make their candidates themselves."""

import pytest
import torch

from lvmdc.sequences import MotifMap, SequenceSet
from lvmdc.vision.datasets import rotated_digits


def test_subset_keeps_what_belongs_to_a_sample_and_forgets_the_division():
    whole = rotated_digits(per_class=3)
    whole.division = (torch.arange(4), torch.arange(4, 6))
    part = whole.subset([5, 0])
    assert part.division is None
    assert part.y.tolist() == [1, 0]
    assert part.h.tolist() == [int(whole.h[5]), int(whole.h[0])]
    assert part.groups.tolist() == [int(whole.groups[5]), int(whole.groups[0])]
    assert part.names == [whole.names[5], whole.names[0]]
    assert len(whole) == 6  # as it was


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"y": [0, 2]}, r"y must hold at least one class index, each in 0\.\.1"),
        ({"y": []}, "y must hold at least one class index"),
        ({"h": [0]}, "h must have one entry for each of the 2 samples, but it has 1"),
        ({"names": ["a"]}, "names must have one entry"),
        ({"groups": [1, 2, 3]}, "groups must have one entry"),
        ({"sequences": ["ACGT"]}, "sequences must have one entry"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes, sentence):
    arguments = {"sequences": ["ACGT", "CCCC"], "y": [0, 1], "psi": MotifMap(3, 1)}
    with pytest.raises(ValueError, match=sentence):
        SequenceSet(**(arguments | changes))
