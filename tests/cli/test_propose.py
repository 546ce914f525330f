"""Boxes by configuration: written to a file, read from it, and counted in the log of a training."""

import logging

import numpy as np
import pytest
import torch
from PIL import Image

from lvmdc.cli.proposals import make_proposals
from lvmdc.cli.train import train
from lvmdc.vision.datasets import cluttered_digits


@pytest.fixture
def photos(tmp_path):
    """Two classes of eight images with a bright square each, and the table of its boxes."""
    rng = np.random.default_rng(0)
    rows = ["image,label,x1,y1,x2,y2"]
    for label in ("cat", "dog"):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for i in range(8):
            pixels = rng.integers(0, 60, (64, 64, 3), np.uint8)
            x, y = rng.integers(0, 32, 2)
            pixels[y : y + 32, x : x + 32] += 150 if label == "cat" else 100
            Image.fromarray(pixels).save(tmp_path / "photos" / label / f"{i}.png")
            rows.append(f"{label}/{i}.png,{label},{x},{y},{x + 32},{y + 32}")
    (tmp_path / "photos" / "boxes.csv").write_text("\n".join(rows))
    return tmp_path / "photos"


def settings(tmp_path, *more):
    return ["extras.progress=false", f"paths.output_dir={tmp_path}", f"paths.log_dir={tmp_path}", *more]


def test_written_boxes_are_those_of_the_proposals_and_the_log_counts_them(config, tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="lvmdc"):
        path = make_proposals(config("make_proposals", *settings(tmp_path, "data.images.per_class=2")))
    assert path == tmp_path / "proposals.npz"
    arrays = np.load(path, allow_pickle=False)
    assert arrays["images"].tolist() == cluttered_digits(per_class=2).names
    assert arrays["counts"].tolist() == [25] * 12
    assert arrays["boxes"][:2].tolist() == [[0, 0, 32, 32], [8, 0, 40, 32]]
    assert "25.0 boxes per image, 100.0 % of the ground-truth boxes found at IoU 0.5" in caplog.text


def test_without_true_boxes_the_log_counts_boxes_alone(config, photos, tmp_path, caplog):
    (photos / "boxes.csv").unlink()
    words = ["data=folder", f"data.images.path={photos}", f"output={tmp_path / 'new' / 'my.npz'}"]
    with caplog.at_level(logging.INFO, logger="lvmdc"):
        assert make_proposals(config("make_proposals", *settings(tmp_path, *words))) == tmp_path / "new" / "my.npz"
    assert "25.0 boxes per image\n" in caplog.text


@pytest.mark.slow
def test_a_training_from_a_file_of_boxes_is_that_from_the_proposals_themselves(config, photos, tmp_path, caplog):
    words = settings(tmp_path, "data=folder", f"data.images.path={photos}")
    path = make_proposals(config("make_proposals", *words))
    quick = [*words, "callbacks=checkpoint", "extras.threads=1", "method.tol=0.1", "extras.report=false", "loss=overlap"]
    with caplog.at_level(logging.INFO, logger="lvmdc"):
        direct = train(config("train", *quick))
        again = train(config("train", *quick, "proposals=file", f"proposals.path={path}", f"paths.output_dir={tmp_path / 'again'}"))
    assert again == pytest.approx(direct)
    assert caplog.text.count("proposals: 25.0 boxes per image, 100.0 % of the ground-truth boxes found at IoU 0.5") == 2


@pytest.mark.parametrize("include", [True, False])
def test_people_know_the_true_boxes_only_if_they_are_asked_to(config, photos, tmp_path, include):
    words = ["data=folder", f"data.images.path={photos}", "proposals=people", "proposals.size=128"]
    path = make_proposals(config("make_proposals", *settings(tmp_path, *words, f"proposals.include_truth={str(include).lower()}")))
    arrays = np.load(path, allow_pickle=False)
    assert arrays["counts"].max() == 20 + include
    truth = torch.tensor([[float(v) for v in row.split(",")[2:]] for row in (photos / "boxes.csv").read_text().splitlines()[1:]])
    sample = torch.arange(16).repeat_interleave(torch.from_numpy(arrays["counts"]))
    exact = (torch.from_numpy(arrays["boxes"]) == truth[sample]).all(dim=1)
    assert (torch.bincount(sample[exact], minlength=16) > 0).all() == include


def test_selective_search_runs_by_its_config(config, tmp_path):
    words = ["data.images.per_class=1", "proposals=selective_search", "proposals.max_boxes=7", "proposals.size=64"]
    arrays = np.load(make_proposals(config("make_proposals", *settings(tmp_path, *words))), allow_pickle=False)
    assert arrays["counts"].max() <= 7


def test_what_cannot_be_done_is_refused_before_any_work(config, photos, tmp_path):
    with pytest.raises(ValueError, match=r"^proposals\.path must be given: add proposals\.path=VALUE"):
        make_proposals(config("make_proposals", *settings(tmp_path, "proposals=file")))
    with pytest.raises(ValueError, match=r"^data\.path must be given"):
        make_proposals(config("make_proposals", *settings(tmp_path, "data=folder")))
    with pytest.raises(IsADirectoryError, match=r"output must be the name of a file, but .* is a folder"):
        make_proposals(config("make_proposals", *settings(tmp_path, f"output={tmp_path}")))
    (photos / "boxes.csv").unlink()
    words = ["data=folder", f"data.images.path={photos}", "proposals=people"]
    with pytest.raises(ValueError, match="include_truth needs images whose ground-truth boxes are known"):
        make_proposals(config("make_proposals", *settings(tmp_path, *words)))


def test_the_papers_data_compose_with_their_proposals(config):
    cfg = config("train", "data=mammals", "proposals=mammals_windows", "paths.data_dir=here")
    assert (cfg.data.images.path, cfg.data.proposals.path, cfg.data.proposals.boxes) == (
        "here/mammals",
        "here/mammals/hog.npz",
        "windows",
    )
    cfg = config("train", "data=voc_action", "proposals=people", "paths.data_dir=here")
    assert (cfg.data.images.path, cfg.data.images.year, cfg.data.proposals._partial_) == ("here/VOCdevkit", 2011, True)
