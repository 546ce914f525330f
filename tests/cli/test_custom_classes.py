"""Classes of the user's: found in the current folder in training, and made from a checkpoint by a program that trusts them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "custom.md").read_text(encoding="utf-8")
WORDS = ["experiment=minimal", "extras.progress=false", "extras.report=false", "callbacks=checkpoint", "method.max_iter=2"]


@pytest.fixture
def paths(monkeypatch):
    """What a test adds to the path, or imports from its folder, is gone after it."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name in ("my_losses", "wrong_losses", "broken_losses"):
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_a_loss_in_the_current_folder_trains_and_its_checkpoint_is_measured_as_the_page_says(tmp_path, script, paths):
    blocks = re.findall(r"^```python(.*?)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "my_losses.py").write_text(next(code for _, code in blocks if "class CenterLoss(Loss)" in code))
    (tmp_path / "measure.py").write_text(next(code for title, code in blocks if "measure.py" in title))
    assert script("train", *WORDS, "loss._target_=my_losses.CenterLoss")[0] == 0
    (run,) = (tmp_path / "logs" / "minimal" / "runs").iterdir()
    command = [sys.executable, "measure.py", f"ckpt_path={run}"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "class error" in ended.stdout + ended.stderr
    command = [sys.executable, "-m", "lvmdc", "eval", f"ckpt_path={run}"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert "put @lvmdc.lightning.trust before it" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        (
            "no_losses.MyLoss",
            "error: no_losses.MyLoss cannot be imported: ModuleNotFoundError: No module named 'no_losses'; modules are looked for",
        ),
        (
            "wrong_losses.MyLoss",
            "error: wrong_losses.MyLoss cannot be imported: ModuleNotFoundError: No module named 'wrong_losses.MyLoss'",
        ),
        ("broken_losses.MyLoss", "error: broken_losses.MyLoss cannot be imported: ZeroDivisionError: division by zero; LVMDC_TRACEBACK=1"),
    ],
)
def test_a_missing_class_is_named_in_a_sentence(target, sentence, tmp_path, script, paths):
    (tmp_path / "wrong_losses.py").write_text("")
    (tmp_path / "broken_losses.py").write_text("1 / 0")
    code, shown = script("train", *WORDS, f"loss._target_={target}")
    assert code == 1
    assert shown.startswith(sentence)
