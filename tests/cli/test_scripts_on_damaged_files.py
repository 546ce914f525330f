"""eval.py, predict.py, train.py and table.py on files that are none of ours: one sentence and a code that is not 0, never a traceback."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture
def kinds(finished, tmp_path) -> dict[str, Path]:
    """Files that are no checkpoint of ours, or not any more."""
    whole = (finished / "checkpoints" / "last.ckpt").read_bytes()
    (tmp_path / "junk.ckpt").write_bytes(b"junk")
    (tmp_path / "empty.ckpt").write_bytes(b"")
    (tmp_path / "truncated.ckpt").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "flipped.ckpt").write_bytes(whole[:3000] + bytes([whole[3000] ^ 1]) + whole[3001:])
    torch.save({"state_dict": {"w": torch.ones(3)}}, tmp_path / "foreign.ckpt")
    torch.save(torch.nn.Linear(2, 2), tmp_path / "module.ckpt")
    np.savez(tmp_path / "arrays.ckpt", a=np.eye(2))
    Image.new("RGB", (4, 4)).save(tmp_path / "image.png")
    (tmp_path / "folder.ckpt").mkdir()
    names = ["junk.ckpt", "empty.ckpt", "truncated.ckpt", "flipped.ckpt", "foreign.ckpt", "module.ckpt", "arrays.ckpt", "image.png"]
    return {name: tmp_path / name for name in [*names, "folder.ckpt", "absent.ckpt"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["eval", "predict", "train"])
def test_what_is_no_checkpoint_ends_a_script_with_one_sentence(name, script, kinds, tmp_path):
    words = {"eval": [], "predict": [f"input={tmp_path}/image.png"], "train": ["experiment=minimal", "extras.progress=false"]}[name]
    chosen = {kind: path for kind, path in kinds.items() if name == "eval" or kind.startswith(("junk", "empty", "trunc", "foreign"))}
    for kind, path in chosen.items():
        code, said = script(name, f"ckpt_path={path}", *words)
        assert code in (1, 2), kind
        assert said.startswith("error: ckpt_path: "), kind
        assert kind in said, kind
        assert "\n" not in said, kind


@pytest.mark.slow
def test_what_is_no_detector_ends_its_training_with_one_sentence(script, kinds):
    for kind in ("junk.ckpt", "foreign.ckpt"):
        code, said = script("train", "experiment=wsod_digits", "extras.progress=false", f"ckpt_path={kinds[kind]}")
        assert (code, said.startswith("error: ckpt_path: "), kind in said) == (1, True, True)


@pytest.mark.parametrize("entry", ["loops", "state_dict", "pytorch-lightning_version"])
def test_a_checkpoint_whose_other_entries_are_wrong_is_not_resumed(entry, script, finished, tmp_path):
    content = torch.load(finished / "checkpoints" / "last.ckpt", weights_only=True)
    content[entry] = "wrong"
    torch.save(content, tmp_path / "wrong.ckpt")
    parts = ["experiment=object_detection", "data.images.per_class=8", "data.val_fraction=0.2", "method.tol=0.1", "logger=csv"]
    quiet = ["extras.progress=false", "callbacks=checkpoint", f"paths.cache_dir='{finished}/cache'", "extras.report=false"]
    code, said = script("train", *parts, *quiet, f"ckpt_path={tmp_path}/wrong.ckpt")
    assert code == 1
    assert "wrong.ckpt" in said
    assert "\n" not in said


@pytest.mark.parametrize("damage", ["junk", "empty", "truncated", "foreign", "no overrides", "a file"])
def test_damaged_results_end_the_table_with_one_sentence(damage, script, tmp_path):
    run = tmp_path / "sweep" / "0"
    (run / ".hydra").mkdir(parents=True)
    (run / ".hydra" / "overrides.yaml").write_text("- experiment=minimal\n")
    whole = json.dumps({"test/loss": 0.5})
    content = {"junk": "junk", "empty": "", "truncated": whole[:9], "foreign": "[1, 2]"}.get(damage, whole)
    (run / "results.json").write_text(content)
    if damage == "no overrides":
        shutil.rmtree(run / ".hydra")
    code, said = script("table", str(run / "results.json" if damage == "a file" else tmp_path / "sweep"))
    assert code == 1
    assert said.startswith("error: ")
    assert ("overrides.yaml" if damage == "no overrides" else "results.json") in said
    assert "\n" not in said


@pytest.mark.slow
def test_junk_ends_a_real_process_without_a_traceback(tmp_path):
    (tmp_path / "junk.ckpt").write_bytes(b"junk")
    command = [sys.executable, str(SCRIPTS / "eval.py"), "ckpt_path=junk.ckpt"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.strip().startswith("error: ckpt_path: junk.ckpt is not a checkpoint that can be read")
    assert "Traceback" not in done.stderr + done.stdout
