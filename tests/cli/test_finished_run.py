"""What a finished run leaves behind: report, images, checkpoints that eval and predict use, and curves in a real TensorBoard."""

import json
import re
import shutil
import time
import urllib.request
from collections import Counter
from html import unescape
from importlib.metadata import version
from pathlib import Path

import pytest
from PIL import Image
from tensorboard import program
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lvmdc.cli.evaluate import evaluate_checkpoint, predict_images
from lvmdc.cli.train import train
from lvmdc.reporting.glossary import explain, glossary, shown
from lvmdc.vision.datasets import cluttered_digits


def test_run_folder_holds_report_record_images_and_both_checkpoints(finished):
    for name in ("report.html", "run.json", "images/all.png", "checkpoints/best.ckpt", "checkpoints/last.ckpt"):
        assert (finished / name).is_file()
    record = json.loads((finished / "run.json").read_text())
    assert record[0]["versions"]["torch"] == version("torch")
    assert "<svg" in (finished / "report.html").read_text()


def test_every_number_of_the_report_has_a_tooltip(finished):
    page = (finished / "report.html").read_text(encoding="utf-8")
    plain = re.findall(r"<(?:th|dt)[^>]*>(?!<abbr)([^<]+)<", page)
    assert set(plain) == {"part", "setting", "value"}  # which hold no numbers
    names = set(re.findall(r">([^<>]+)</text>", page)) & {shown(name) for name in glossary()["Training"]} - {shown("iteration")}
    assert len(names) > 5
    for name in names:
        assert f"<title>{explain(name)}</title>{name}</text>" in unescape(page)


def test_tensorboard_serves_scalars_histograms_images_and_hyperparameters(finished):
    board = program.TensorBoard()
    board.configure(argv=[None, "--logdir", str(finished / "tensorboard"), "--host", "127.0.0.1", "--port", "0", "--load_fast", "false"])
    url = board.launch()

    def tags(plugin: str) -> str:
        with urllib.request.urlopen(f"{url}data/plugin/{plugin}/tags", timeout=30) as answer:
            return answer.read().decode()

    for _ in range(60):
        scalars = tags("scalars")
        if "train/objective" in scalars and "final/train/loss" in scalars:
            break
        time.sleep(0.5)
    for tag in ("train/objective", "train/slack", "train/entropy", "solver/gap", "val/loss", "test/loss", "final/train/loss"):
        assert tag in scalars
    for kind in ("train", "test"):
        assert f"images/{kind}" in tags("images")
    assert "posterior/entropy" in tags("histograms")


def test_tensorboard_tags_are_few_grouped_clean_and_written_once(finished):
    held = Counter()
    for file in (finished / "tensorboard").glob("events.*"):
        events = EventAccumulator(str(file)).Reload()
        held.update(tag for kind in ("scalars", "images", "histograms") for tag in events.Tags()[kind])
        for scalar in events.Tags()["scalars"]:
            steps = [event.step for event in events.Scalars(scalar)]
            assert len(set(steps)) == len(steps), scalar
    assert [tag for tag, times in held.items() if times > 1] == []
    assert [tag for tag in held if not re.fullmatch(r"(train|solver|val|test|final|posterior|images)/[\w./-]+", tag)] == []
    assert [tag for tag in held if tag.startswith(("final/val/", "final/test/"))] == []  # curves of their own
    assert len(held) < 50
    words = {tag.split("/")[1] for tag in held if tag.startswith(("train/", "solver/", "val/", "test/"))}
    assert words <= set(glossary()["Training"]) | set(glossary()["Results"])


def test_eval_gives_the_numbers_of_the_run(finished, config, tmp_path):
    cfg = config("eval", f"ckpt_path='{finished}/checkpoints/last.ckpt'", f"paths.output_dir={tmp_path}")
    measures = evaluate_checkpoint(cfg)
    assert json.loads((tmp_path / "results.json").read_text()) == measures
    of_the_run = json.loads((finished / "results.json").read_text())
    for name, value in measures.items():
        assert value == pytest.approx(of_the_run[f"test/{name}"], abs=1e-6)


@pytest.mark.slow
def test_without_training_the_checkpoint_is_what_is_measured(finished, config, tmp_path):
    overrides = [
        "experiment=object_detection",
        "data.images.per_class=8",
        "data.val_fraction=0.2",
        "extras.progress=false",
        "train=false",
    ]
    places = [f"paths.output_dir={tmp_path}", f"paths.log_dir={tmp_path}"]
    measures = train(config("train", *overrides, *places, f"ckpt_path='{finished}/checkpoints/last.ckpt'"))
    assert measures["test/loss"] == pytest.approx(json.loads((finished / "results.json").read_text())["test/loss"], abs=1e-6)
    with pytest.raises(ValueError, match="train=false needs something that was learned before"):
        train(config("train", *overrides, *places))


def test_eval_takes_another_fold(finished, config, tmp_path):
    same, other = (
        evaluate_checkpoint(config("eval", f"ckpt_path='{finished}/checkpoints/last.ckpt'", f"paths.output_dir={tmp_path}", *more))
        for more in ([], ["overrides=['data.fold=3']"])
    )
    assert same != other


@pytest.fixture
def photographs(tmp_path) -> Path:
    folder = tmp_path / "photos é"
    (folder / "more").mkdir(parents=True)
    images = cluttered_digits(seed=5, per_class=1)
    for i, (name, mode) in enumerate([("rgb.png", "RGB"), ("grey.png", "L"), ("alpha.png", "RGBA"), ("more/print.jpg", "CMYK")]):
        images.image(i).convert(mode).save(folder / name)
    return folder


def test_predict_draws_and_lists_images_of_any_mode(finished, config, photographs, tmp_path):
    output = tmp_path / "out"
    cfg = config(
        "predict",
        f"ckpt_path='{finished}/checkpoints/last.ckpt'",
        f"input='{photographs}'",
        f"output='{output}'",
        "paths.output_dir=unused",
    )
    listed = json.loads(predict_images(cfg).read_text())["images"]
    assert [entry["name"] for entry in listed] == ["alpha.png", "grey.png", "more/print.jpg", "rgb.png"]
    for entry in listed:
        assert entry["class"] in "023467"
        assert len(entry["alternatives"]) == 2
        Image.open(output / entry["drawing"]).verify()


def test_predict_names_an_image_that_cannot_be_read(finished, config, photographs, tmp_path):
    shutil.copy(photographs / "rgb.png", photographs / "broken.png")
    (photographs / "broken.png").write_bytes((photographs / "rgb.png").read_bytes()[:100])
    cfg = config(
        "predict",
        f"ckpt_path='{finished}/checkpoints/last.ckpt'",
        f"input='{photographs}'",
        f"output='{tmp_path}'",
        "paths.output_dir=unused",
    )
    with pytest.raises(ValueError, match=r"broken\.png"):
        predict_images(cfg)


@pytest.mark.parametrize(("word", "sentence"), [("min_score=0.5", "min_score is for detectors"), ("top_k=0", "top_k must be at least 1")])
def test_predict_refuses_what_only_detectors_have(finished, config, photographs, tmp_path, word, sentence):
    with pytest.raises(ValueError, match=sentence):
        predict_images(config("predict", f"ckpt_path='{finished}'", f"input='{photographs}'", f"output='{tmp_path}'", word))
