"""Sequences, planted and from files."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from lvmdc import LSVM, LabelLoss
from lvmdc.samples import split_by_class
from lvmdc.sequences import MotifMap, SequenceSet, motif, planted_motifs
from lvmdc.sequences.motif import read_sequences


def test_planted_letters_follow_the_logo_at_the_true_place():
    found = planted_motifs(per_class=400, consensus="ACGTTGCA", purity=0.8)
    c = found.candidates()
    bound = found.y == 1
    shares = found.psi.letter_shares(c, c.rows(found.h)[bound])
    assert np.abs(shares.numpy() - found.logo).max() < 0.07
    assert torch.bincount(found.y).tolist() == [400, 400]
    assert len(set(found.h[bound].tolist())) == 53  # every place


def test_planted_sequences_repeat_by_seed_and_do_not_depend_on_how_many_there_are():
    few, many, other = planted_motifs(per_class=3), planted_motifs(per_class=5), planted_motifs(seed=1, per_class=3)
    assert [few.text(i) for i in (0, 1, 2)] == [many.text(i) for i in (0, 1, 2)]
    assert few.text(3) == many.text(5)
    assert few.text(0) != other.text(0)


@pytest.mark.slow
def test_planted_motif_is_learned_with_its_logo():
    found = planted_motifs(per_class=400)
    train, test = split_by_class(found.y)
    c = found.candidates()
    model = LSVM(LabelLoss(), C=30.0, cccp="self_paced", joint=found.psi).fit(c.subset(train), found.y[train])
    assert "".join("ACGT"[k] for k in found.psi.motif(model.coef_).argmax(dim=1)) == "GCTAATTACC"
    assert 1 - model.score(c.subset(test), found.y[test]) < 0.08
    _, h_hat = model.predict(c.subset(test))
    bound = found.y[test] == 1
    assert float((h_hat == found.h[test])[bound].double().mean()) > 0.85


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"per_class": 0}, "per_class must be at least 1"),
        ({"length": 5}, "length must be at least 10"),
        ({"purity": 0.2}, "purity must lie above 0.25"),
        ({"consensus": "ACGX"}, "consensus must consist of A, C, G and T"),
    ],
)
def test_planting_refuses_what_cannot_be_planted(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        planted_motifs(**settings)


def test_candidates_are_all_windows_with_the_letters_they_cover():
    pair = SequenceSet(["ACGTAC", "TTTT"], [1, 0], MotifMap(3, 1), h=[1, 0])
    c = pair.candidates()
    assert c.counts.tolist() == [4, 2]
    assert c.boxes[1].tolist() == [1.0, 0.0, 4.0, 1.0]
    assert pair.places(0).shape == (4, 4)
    width, height = pair.image(0).size
    assert bool((pair.places(0) <= torch.tensor([width, height, width, height])).all())
    part = pair.subset(torch.tensor([False, True]))
    assert (part.text(0), part.h.tolist(), len(part)) == ("TTTT", [0], 1)


def write(path: Path, *lines: str, count: int | None = None) -> Path:
    text = "\n".join([str(len(lines) if count is None else count), *lines]) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def test_files_are_read_plain_and_compressed_and_divided_as_they_came(tmp_path):
    write(tmp_path / "train9_2.data.gz", "a:1:0:ACGTACGTACGT", "b:-1:0:TTTTTTTTTTTT", "c:+1:1:acgtacgtacgg")
    write(tmp_path / "test9_2.data", "d:-1:0:GGGGGGGGGGGG")
    found = motif(tmp_path, "9", fold=1)
    assert found.y.tolist() == [1, 0, 1, 0]
    assert found.text(2) == "ACGTACGTACGG"
    assert [part.tolist() for part in found.division] == [[0, 1, 2], [3]]


def test_training_may_take_the_first_of_each_class_alone(tmp_path):
    write(tmp_path / "train9_1.data", "a:1:0:AAAAAAAAAAAA", "b:1:0:CCCCCCCCCCCC", "c:-1:0:GGGGGGGGGGGG", "d:-1:0:TTTTTTTTTTTT")
    write(tmp_path / "train9_2.data", "a:1:0:AAAAAAAAAAAA", "b:1:0:CCCCCCCCCCCC", "e:-1:0:GGGGGGGGGGGT")
    found = motif(tmp_path, "9", per_class=1)
    train, test = found.division
    assert [found.text(int(i))[0] for i in train] == ["A", "G"]
    assert [found.text(int(i)) for i in test] == ["GGGGGGGGGGGT"]  # none of what the file holds beyond them
    assert len(motif(tmp_path, "9", per_class=5).division[0]) == 4
    with pytest.raises(ValueError, match="per_class must be at least 1, but it is 0"):
        motif(tmp_path, "9", per_class=0)


def test_fold_without_a_test_file_is_tested_with_what_only_other_folds_hold(tmp_path):
    write(tmp_path / "train9_1.data", "a:1:0:ACGTACGTACGT", "b:-1:0:TTTTTTTTTTTT")
    write(tmp_path / "train9_2.data", "b:-1:0:TTTTTTTTTTTT", "c:1:0:CCCCCCCCCCCC")
    write(tmp_path / "train9_3.data.gz", "c:1:0:CCCCCCCCCCCC", "d:-1:0:GGGGGGGGGGGG")
    write(tmp_path / "train8_1.data", "e:-1:0:AAAAAAAAAAAA")
    found = motif(tmp_path, "9")
    assert [found.text(int(i))[0] for i in found.division[1]] == ["C", "G"]
    with pytest.raises(FileNotFoundError, match=r"must hold test8_1\.data, or another fold"):
        motif(tmp_path, "8")
    with pytest.raises(FileNotFoundError, match=r"must hold train7_1\.data"):
        motif(tmp_path, "7")


@pytest.mark.parametrize(
    ("lines", "count", "sentence"),
    [
        (["a:1:0:ACGT"], 2, "must hold 2 sequences, as its first line says, but it holds 1"),
        (["a:1:0:ACGT", "b:2:0:ACGT"], 2, "line 3, must be name:label:non_background:sequence"),
        (["a:1:ACGT"], 1, "line 2, must be"),
        (["a:1:0:ACNT"], 1, "line 2, must be"),
    ],
)
def test_damaged_file_is_refused_by_name_and_line(lines, count, sentence, tmp_path):
    path = write(tmp_path / "train9_1.data", *lines, count=count)
    with pytest.raises(ValueError, match=sentence) as caught:
        read_sequences(path)
    assert "train9_1.data" in str(caught.value)


def test_file_that_is_no_text_or_cut_short_is_refused_by_name(tmp_path):
    whole = write(tmp_path / "a.data.gz", "a:1:0:ACGT").read_bytes()
    (tmp_path / "a.data.gz").write_bytes(whole[:20])
    with pytest.raises(ValueError, match=r"a\.data\.gz cannot be unpacked"):
        read_sequences(tmp_path / "a.data.gz")
    (tmp_path / "b.data").write_text("no number\n")
    with pytest.raises(ValueError, match=r"b\.data must give on its first line"):
        read_sequences(tmp_path / "b.data")


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.skipif(not Path(os.environ.get("LVMDC_DATA", "data"), "motif").is_dir(), reason="needs motif/ under LVMDC_DATA")
def test_real_folds_are_halves_and_their_rest_is_the_test_part():
    root = Path(os.environ.get("LVMDC_DATA", "data"), "motif")
    found = motif(root, "052")
    train, test = found.division
    assert (len(train), len(test)) == (20950, 20948)
    assert torch.bincount(found.y[train]).tolist() == [10475, 10475]
    assert not {found.text(int(i)) for i in train} & {found.text(int(i)) for i in test}
    rest = motif(root, "074")
    assert len(rest.division[1]) > 0.85 * len(rest.division[0])
