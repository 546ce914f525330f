"""Motif finding, digit recognition and image classification by their configurations."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from lvmdc.cli.evaluate import evaluate_checkpoint, predict_images
from lvmdc.cli.proposals import make_proposals
from lvmdc.cli.train import train
from lvmdc.lightning.data import LatentDataModule

pytestmark = pytest.mark.slow

QUICK = ["extras.progress=false", "callbacks=checkpoint", "extras.threads=1", "logger=csv"]


def places(folder: Path) -> list[str]:
    return [f"paths.output_dir='{folder}'", f"paths.log_dir='{folder}'"]


@pytest.fixture(scope="module")
def motifs(tmp_path_factory, config) -> tuple[Path, dict[str, float]]:
    folder = tmp_path_factory.mktemp("motifs")
    return folder, train(config("train", "experiment=motif_finding", *QUICK, *places(folder)))


def test_motif_is_found_from_labels_alone(motifs):
    _, measures = motifs
    assert measures["test/error"] < 0.08
    assert measures["test/latent_error"] < 0.15
    assert measures["test/overlap"] > 0.85


def test_learned_logo_is_drawn_and_reported(motifs):
    folder, _ = motifs
    width, height = Image.open(folder / "images" / "learned.png").size
    assert height > width  # three logos, one below the other
    for name in ("report.html", "run.json", "images/all.png"):
        assert (folder / name).stat().st_size > 0
    assert "motif by its weights" in (folder / "report.html").read_text(encoding="utf-8")


def test_checkpoint_of_sequences_is_measured_again_and_refuses_images(motifs, config, tmp_path):
    folder, measures = motifs
    checkpoint = f"ckpt_path='{folder}/checkpoints/last.ckpt'"
    again = evaluate_checkpoint(config("eval", checkpoint, f"paths.output_dir={tmp_path}"))
    assert again["latent_error"] == pytest.approx(measures["test/latent_error"], abs=1e-6)
    Image.new("RGB", (64, 64)).save(tmp_path / "a.png")
    with pytest.raises(ValueError, match="was learned from data that are not images"):
        predict_images(config("predict", checkpoint, f"input={tmp_path}", f"paths.output_dir={tmp_path}"))


@pytest.mark.parametrize("method", ["disc", "ilsvm", "em", "m3e", "supervised"])
def test_every_method_finds_motifs_by_its_config(method, config, tmp_path):
    overrides = [f"method={method}", "data.samples.per_class=40", "method.tol=0.1", "extras.report=false", "loss=overlap"]
    measures = train(config("train", "experiment=motif_finding", *overrides, *QUICK, *places(tmp_path)))
    assert set(measures) == {"test/error", "test/loss", "test/latent_error", "test/overlap"}
    assert measures["test/error"] <= measures["test/loss"] <= 1


def test_files_of_a_protein_are_learned_from_by_fold(config, tmp_path):
    rng = np.random.default_rng(0)

    def lines(n: int) -> str:
        made = []
        for i in range(n):
            letters = "".join(rng.choice(list("ACGT"), 40))
            made.append(f"s{i}:{1 if i % 2 else -1}:0:" + (letters[:12] + "GATTACAGAT" + letters[22:] if i % 2 else letters))
        return f"{n}\n" + "\n".join(made) + "\n"

    (tmp_path / "motif").mkdir()
    for part, n in (("train", 80), ("test", 40)):
        (tmp_path / "motif" / f"{part}052_2.data").write_text(lines(n))
    words = ["experiment=motif_finding", "data=motif", f"paths.data_dir='{tmp_path}'", "data.fold=1", "data.val_fraction=0.2"]
    measures = train(config("train", *words, *QUICK, *places(tmp_path / "out")))
    assert set(measures) == {"test/error"}  # where the motif is, the files do not say
    assert measures["test/error"] < 0.1


@pytest.mark.parametrize(("loss", "pair"), [("label", "[1,7]"), ("zero_one", "[3,8]")])
def test_digits_are_recognised_whatever_their_rotation(loss, pair, config, tmp_path):
    words = [f"loss={loss}", f"data.samples.pair={pair}", "data.samples.per_class=50", "method.tol=0.01"]
    measures = train(config("train", "experiment=digit_recognition", *words, *QUICK, *places(tmp_path)))
    assert measures["test/error"] < 0.3
    assert 0 <= measures["test/latent_error"] < 0.85  # eleven angles: chance is 0.91
    assert json.loads((tmp_path / "results.json").read_text())["test/loss"] == measures["test/loss"]


def test_images_are_classified_by_the_best_window(config, tmp_path):
    words = ["data.images.per_class=20", "method.tol=0.01"]
    measures = train(config("train", "experiment=image_classification", *words, *QUICK, *places(tmp_path)))
    assert measures["test/loss"] == measures["test/error"] < 0.6


def test_sequences_are_not_learned_without_the_map_that_reads_them(config, tmp_path):
    for words in (["data=planted_motifs"], ["experiment=motif_finding", "method.joint.order=1"]):
        with pytest.raises(ValueError, match=r"need method\.joint to be MotifMap\(width=10, order=2\)"):
            train(config("train", *words, *QUICK, *places(tmp_path)))


def test_no_boxes_are_proposed_for_what_are_no_images(config, tmp_path):
    with pytest.raises(ValueError, match="data must have images to propose boxes for"):
        make_proposals(config("make_proposals", "data=planted_motifs", *places(tmp_path)))


def test_data_are_images_or_samples_and_nothing_between():
    with pytest.raises(ValueError, match="data must be either images with proposals and features, or samples"):
        LatentDataModule()


MAMMALS = Path(os.environ.get("LVMDC_DATA", "data"), "mammals")


@pytest.mark.real_data
@pytest.mark.skipif(not (MAMMALS / "images").is_dir(), reason="needs mammals under LVMDC_DATA")
def test_mammals_are_classified_on_their_published_folds(config, tmp_path):
    words = ["data=mammals_folds", "features=mammals_hog", "proposals=mammals_windows", "data.fold=3", "extras.report=false"]
    cfg = config("train", "experiment=image_classification", *words, *QUICK, *places(tmp_path))
    measures = train(cfg)
    objective = json.loads((tmp_path / "results.json").read_text())["objective"]
    assert 4.2 < objective < 5.2  # published: 4.70 ± 0.10
    assert torch.tensor(measures["test/error"] * 26).round() == pytest.approx(measures["test/error"] * 26)  # 26 test images
