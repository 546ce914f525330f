"""Bad input gets one clear sentence, before any long work."""

import logging
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hydra.errors import HydraException
from PIL import Image
from processes import train_script

from lvmdc.cli.config import checked
from lvmdc.cli.errors import explain
from lvmdc.cli.evaluate import find_images
from lvmdc.cli.train import train
from lvmdc.lightning.checkpoint import read_checkpoint
from lvmdc.lightning.trusted import construct

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.ranks
def test_mistake_on_the_command_line_ends_in_one_sentence_without_a_traceback(tmp_path):
    code, shown = train_script(tmp_path, "experiment=object_detectoin").end()
    assert code != 0
    assert shown.strip().splitlines()[-1].startswith("error: experiment=object_detectoin is not one of")
    assert "Traceback" not in shown


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("experiment=object_detectoin", "did you mean 'object_detection'"),
        ("method.CC=1", "there is no option 'method.CC': did you mean 'method.C'"),
        ("method.C=…", "the value of method.C cannot be read: '…'"),
        ("method.C=[1", "the value of method.C cannot be read: '[1'"),
        ("lsvm", "'lsvm' must be group=choice or name=value"),
        ("methd=lsvm", "there is no option 'methd': did you mean 'method'"),
        ("loss=overlp", "loss=overlp is not one of label, overlap, zero_one: did you mean 'overlap'"),
    ],
)
def test_misspelt_option_is_refused_with_the_nearest_right_name(override, sentence, config):
    with pytest.raises(HydraException) as caught:
        config("train", override)
    assert sentence in explain(caught.value)


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("data.fold=1.5", "data.fold must be an integer, but it is 1.5"),
        ("method.tol=small", "method.tol must be a number, but it is 'small'"),
        ("extras.report=perhaps", "extras.report must be true or false, but it is 'perhaps'"),
        ("seed=abc", "seed must be an integer, but it is 'abc'"),
        ("test=perhaps", "test must be true or false, but it is 'perhaps'"),
        ("module.iou=wide", r"there is no option 'module\.iou'"),
    ],
)
def test_setting_of_another_type_is_refused(override, sentence, config):
    with pytest.raises((HydraException, ValueError)) as caught:
        checked(config("train", "experiment=object_detection", override))
    assert re.search(sentence, explain(caught.value))


def test_a_setting_that_a_class_does_not_have_is_refused_with_those_it_has(config):
    with pytest.raises(ValueError, match=r"method\.CC is not a setting of lvmdc\.DISC, which has loss, C, "):
        checked(config("train", "+method.CC=1.0"))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("methd:\n  C: 1.0\n", "a configuration file has 'methd', but there is no such option: did you mean 'method'?"),
        ("disc:\n  J: 1.0\n", "a configuration file has 'disc', whose settings have new names: disc.J is now method.J"),
    ],
)
def test_an_unknown_option_in_a_custom_file_is_refused_with_the_right_name(content, sentence, config, tmp_path):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(f"# @package _global_\n{content}")
    with pytest.raises(HydraException) as caught:
        config("train", f"hydra.searchpath=[file://{tmp_path}]", "experiment=mine")
    assert explain(caught.value) == sentence


def test_what_an_experiment_sets_for_other_methods_is_left_out_and_said(config, caplog):
    with caplog.at_level(logging.INFO, logger="lvmdc"):
        cfg = checked(config("train", "experiment=object_detection", "method=ilsvm"))
    assert "J" not in cfg.method
    assert "method.J is left out: lvmdc.ILSVM has no such setting" in caplog.text
    assert checked(config("train", "experiment=object_detection")).method.J == 0.001


@pytest.mark.slow
def test_every_shipped_experiment_has_settings_of_the_right_types(config):
    for i, path in enumerate(sorted((ROOT / "configs" / "experiment").glob("*.yaml"))):
        detects = "wsod" in path.stem or path.stem == "photos"
        module = [] if detects else [["module=dual"], ["module=exact"], []][i % 3]  # none: its own
        data = ["data.images.path=photos"] if path.stem == "photos" else []
        checked(config("train", f"experiment={path.stem}", *module, *data))


@pytest.mark.parametrize(
    ("override", "sentence"),
    [("method.C=-1", "C must be a positive number, but it is -1"), ("method.C=abc", "method.C must be a number, but it is 'abc'")],
)
def test_setting_out_of_range_is_refused_before_any_work(override, sentence, config, small, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        train(config("train", *small, override, f"paths.output_dir={tmp_path}", f"paths.log_dir={tmp_path}"))
    assert not list(tmp_path.rglob("*.npz"))


def test_several_starts_in_one_training_are_refused(config, small, tmp_path):
    with pytest.raises(Exception, match=r"method\.n_init must be 1 here"):
        train(config("train", *small, "+method.n_init=3", f"paths.output_dir={tmp_path}", f"paths.log_dir={tmp_path}"))


def test_setting_that_must_be_given_is_named(config, tmp_path):
    with pytest.raises(ValueError, match=r"data\.path must be given"):
        train(config("train", "data=folder", f"paths.output_dir={tmp_path}", f"paths.log_dir={tmp_path}"))


def image_folder(path: Path, per_class: int = 4) -> Path:
    rng = np.random.default_rng(0)
    for name in ("cats", "dogs"):
        (path / name).mkdir(parents=True)
        for i in range(per_class):
            Image.fromarray(rng.integers(0, 255, (48, 48, 3), np.uint8)).save(path / name / f"{i}.png")
    return path


def run_on(folder, config, tmp_path, *overrides):
    parts = ["data=folder", "callbacks=checkpoint", "extras.progress=false", "logger=csv", "method.tol=0.5", *overrides]
    return train(
        config("train", *parts, f"data.images.path='{folder}'", f"paths.output_dir={tmp_path}/out", f"paths.log_dir={tmp_path}/out")
    )


def test_missing_data_folder_is_named(config, tmp_path):
    with pytest.raises(Exception, match="nowhere"):
        run_on(tmp_path / "nowhere", config, tmp_path)


def test_empty_data_folder_is_named(config, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(Exception, match="empty"):
        run_on(tmp_path / "empty", config, tmp_path)


def test_truncated_image_is_named(config, tmp_path):
    folder = image_folder(tmp_path / "pets")
    whole = folder / "cats" / "0.png"
    whole.write_bytes(whole.read_bytes()[:200])
    with pytest.raises(Exception, match=r"cats.0\.png"):
        run_on(folder, config, tmp_path)


def test_box_outside_its_image_is_named(config, tmp_path):
    folder = image_folder(tmp_path / "pets")
    rows = [f"{c}/{i}.png,{c},0,0,{900 if (c, i) == ('dogs', 2) else 20},20" for c in ("cats", "dogs") for i in range(4)]
    (folder / "boxes.csv").write_text("image,label,x1,y1,x2,y2\n" + "\n".join(rows))
    with pytest.raises(Exception, match=r"dogs/2\.png"):
        run_on(folder, config, tmp_path)


@pytest.mark.slow
def test_folder_with_spaces_and_letters_beyond_ascii_without_boxes_trains(config, tmp_path):
    measures = run_on(image_folder(tmp_path / "mes élans à moi"), config, tmp_path, "loss=label", "data.fraction=0.6")
    assert set(measures) == {"test/error"}


def test_folder_that_cannot_be_written_is_named(config, tmp_path):
    blocked = tmp_path / "out"
    blocked.write_text("a file where the run folder should be")
    with pytest.raises(OSError, match="out"):
        run_on(image_folder(tmp_path / "pets"), config, tmp_path)


def test_what_is_not_a_checkpoint_is_refused_by_name(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"ckpt_path: .*none\.ckpt does not exist"):
        read_checkpoint(tmp_path / "none.ckpt")
    (tmp_path / "text.ckpt").write_text("no checkpoint")
    with pytest.raises(ValueError, match=r"text\.ckpt is not a checkpoint that can be read"):
        read_checkpoint(tmp_path / "text.ckpt")
    torch.save({"other": 1}, tmp_path / "other.ckpt")
    with pytest.raises(ValueError, match=r"other\.ckpt is not a checkpoint of lvmdc"):
        read_checkpoint(tmp_path / "other.ckpt")


class Trap:
    """Runs code if unpickled."""

    def __reduce__(self):
        return (Path.touch, (Path("trapped"),))


def test_checkpoint_from_elsewhere_runs_no_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"lvmdc": Trap()}, "trap.ckpt")
    with pytest.raises(ValueError, match=r"trap\.ckpt is not a checkpoint that can be read"):
        read_checkpoint("trap.ckpt")
    assert not Path("trapped").exists()
    with pytest.raises(ValueError, match=r"asks for os\.system"):
        construct({"_target_": "lvmdc.DISC", "loss": {"_target_": "os.system", "command": "true"}}, "trap.ckpt")


@pytest.mark.slow
def test_checkpoint_of_other_classes_is_refused(finished):
    checkpoint = read_checkpoint(finished / "checkpoints" / "last.ckpt")
    with pytest.raises(ValueError, match=r"knows 6 classes .* but the data have 2 \(a, b\)"):
        checkpoint.check_fits(["a", "b"])


def test_input_without_images_is_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no image"):
        find_images(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"input: .*nowhere does not exist"):
        find_images(tmp_path / "nowhere")
