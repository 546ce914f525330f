"""The wheel: what is in it, and that it works where the clone is not."""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
pytestmark = [pytest.mark.slow, pytest.mark.ranks]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    words = ["wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True, timeout=300)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The folder of programs of an environment that has the wheel, and what it needs from the environment of the tests."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=300)
    words = ["--python", str(folder / "bin" / "python"), "install", "--quiet", "--no-index", "--no-deps", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True, timeout=300)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin"


def outside(folder, *command):
    """Run a command in a folder that is not the clone, and that does not find it: what it printed."""
    own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH", "LVMDC_DATA")}
    done = subprocess.run([str(word) for word in command], cwd=folder, env=own, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_holds_the_package_and_the_configurations_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        held = {name.removeprefix("lvmdc/configs/"): archive.read(name) for name in names if name.startswith("lvmdc/configs/")}
        (points,) = [archive.read(name).decode() for name in names if name.endswith(".dist-info/entry_points.txt")]
    assert held == {path.relative_to(ROOT / "configs").as_posix(): path.read_bytes() for path in (ROOT / "configs").rglob("*.yaml")}
    files = {path for path in (ROOT / "lvmdc").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    packaged = {name for name in names if "/configs/" not in name and ".dist-info/" not in name}
    assert packaged == {path.relative_to(ROOT).as_posix() for path in files}
    assert "lvmdc/py.typed" in packaged
    assert "lvmdc = lvmdc.cli:main" in points
    assert wheel.stat().st_size < 1_000_000


def test_the_version_is_the_same_everywhere(wheel):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    assert HeaderParser().parsestr(metadata)["Version"] == version
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == version
    released = re.findall(r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert released[0] == version


def test_the_installed_program_trains_and_predicts_outside_the_clone(installed, tmp_path):
    prepare = "import lvmdc.vision.datasets as d; print(d.__file__); d.cluttered_digits(seed=9, per_class=1).image(0).save('a.png')"
    assert str(installed.parent) in outside(tmp_path, installed / "python", "-c", prepare)
    quick = ["extras.progress=false", "extras.threads=1", "logger=csv", "callbacks=checkpoint", "data.images.per_class=6"]
    outside(tmp_path, installed / "lvmdc", "train", "experiment=minimal", *quick)
    (run,) = tmp_path.glob("logs/minimal/runs/*")
    outside(tmp_path, installed / "lvmdc", "predict", f"ckpt_path={run}", "input=a.png", "output=found")
    assert {path.name for path in (tmp_path / "found").rglob("*.*")} == {"predictions.json", "a.png"}


def test_a_typed_program_passes_strict_type_checks_against_the_installed_package(installed, tmp_path):
    program = tmp_path / "program.py"
    program.write_text((ROOT / "tests" / "typed_program.py").read_text(encoding="utf-8"), encoding="utf-8")
    words = ["--strict", "--python-executable", installed / "python", "--cache-dir", tmp_path / "cache", program]
    outside(tmp_path, sys.executable, "-m", "mypy", *words)


def test_the_typed_program_runs():
    from typed_program import Distance, learn

    y_hat, h_hat = learn(Distance())
    assert y_hat.shape == h_hat.shape == (10,)
