"""The program `lvmdc`: its commands, their words, and what a shell completes."""

import json
import os
import runpy
import subprocess
import sys

import pytest
from processes import Script

import lvmdc.cli
from lvmdc.cli import COMMANDS, main, overview
from lvmdc.cli.info import data_sets


def lvmdc_says(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["lvmdc", *words])
    main()
    return capsys.readouterr().out


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_without_a_command_all_are_listed_with_an_example(words, monkeypatch, capsys):
    shown = lvmdc_says(monkeypatch, capsys, *words)
    assert all(f"  lvmdc {name}" in shown for name in COMMANDS)


def test_an_unknown_command_is_refused_with_the_nearest(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["lvmdc", "trian"])
    with pytest.raises(SystemExit, match="there is no command 'trian': did you mean 'train'"):
        main()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_gets_the_words_after_its_name(name, monkeypatch):
    called = []
    monkeypatch.setattr(lvmdc.cli, "start", lambda *given: called.append(given))
    monkeypatch.setattr(sys, "argv", ["lvmdc", name, "a=1", "-m"])
    main()
    assert called == [(name, ["a=1", "-m"])]


def complete(monkeypatch, capsys, line):
    monkeypatch.setenv("COMP_LINE", line)
    return lvmdc_says(monkeypatch, capsys, "-sc", "query=bash").split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("lvmdc ", "predict"),
        ("lvmdc pre", "predict"),
        ("lvmdc train meth", "method="),
        ("lvmdc train experiment=object_detection method=", "method=disc"),
        ("lvmdc predict inp", "input="),
    ],
)
def test_a_shell_completes_commands_groups_and_choices(line, offered, monkeypatch, capsys):
    assert offered in complete(monkeypatch, capsys, line)


@pytest.mark.slow
@pytest.mark.parametrize("words", ["'train', '--help'", "'predict', '-h'"])
def test_help_does_not_wait_for_lightning(words):
    code = f"""
import atexit, sys
atexit.register(lambda: print("pytorch_lightning" in sys.modules))  # Hydra ends the program after its help
sys.argv = ["lvmdc", {words}]
import lvmdc.cli
lvmdc.cli.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.splitlines()[-1] == "False"


def test_what_installs_completion_names_the_program(monkeypatch, capsys):
    shown = lvmdc_says(monkeypatch, capsys, "-sc", "install=bash")
    assert shown.rstrip().endswith(" lvmdc")


def test_info_prints_versions_data_sets_and_the_size_of_the_cache(tmp_path, monkeypatch, capsys):
    (tmp_path / "logs" / "cache").mkdir(parents=True)
    (tmp_path / "logs" / "cache" / "a.npz").write_bytes(bytes(2_000_000))
    (tmp_path / "mine" / "mammals").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LVMDC_DATA", str(tmp_path / "mine"))
    lines = [line.split() for line in lvmdc_says(monkeypatch, capsys, "info").splitlines()]
    assert ["mammals", "found"] in lines
    assert any(line[:3] == ["motif", "not", "found:"] for line in lines)
    assert any(line[:1] == ["torch"] for line in lines)
    assert next(line for line in lines if line[:1] == ["Cache:"])[-5:] == [f"{tmp_path}/logs/cache,", "1", "files,", "2.0", "MB"]


def test_data_sets_are_those_that_a_configuration_looks_for(tmp_path):
    places = data_sets(tmp_path)
    assert {name: place.relative_to(tmp_path).as_posix() for name, place in places.items() if name.startswith("voc")} == {
        "voc_action": "VOCdevkit/VOC2011",
        "voc_detection": "VOCdevkit/VOC2007",
    }


@pytest.mark.slow
def test_a_reader_that_stops_early_causes_no_traceback():
    closed, written = os.pipe()
    os.close(closed)
    done = subprocess.run([sys.executable, "-m", "lvmdc"], stdout=written, stderr=subprocess.PIPE, text=True, timeout=300)
    os.close(written)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.slow
@pytest.mark.ranks
def test_ranks_that_a_command_starts_run_the_same_command(tmp_path):
    """Lightning starts the second rank by the words of the first, the name of the command among them."""
    words = ["experiment=minimal", "method=lsvm", "method.solver=one_slack", "trainer=ddp", "trainer.devices=2", "data.images.per_class=6"]
    words += ["method.max_iter=2", "callbacks=checkpoint", "logger=csv", "extras.progress=false", "extras.report=false"]
    code, shown = Script(tmp_path, "lvmdc", "train", *words, f"paths.log_dir={tmp_path}", module=True).end()
    assert code == 0, shown
    (run,) = tmp_path.glob("minimal/runs/*/run.json")
    (record,) = json.loads(run.read_text())
    assert record["command"][1:3] == ["train", "experiment=minimal"]


def test_python_m_lvmdc_is_the_program(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["lvmdc", "--help"])
    runpy.run_module("lvmdc", run_name="__main__", alter_sys=True)
    assert capsys.readouterr().out.strip() == overview()
