"""The simulated accelerator of `--device standin`: it refuses what CUDA refuses, and a part of the tests runs on it."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lvmdc import segments

TESTS = Path(__file__).parent
FEW = ["test_devices.py", "test_segments.py", "test_objective.py", "solvers/test_dual_gap.py"]


@pytest.mark.slow
def test_a_part_of_the_tests_passes_on_the_simulated_accelerator(device):
    if device.type != "cpu":
        pytest.skip("this run is on a device itself")
    files = [str(TESTS / name) for name in FEW]
    words = ["-q", "--device", "standin", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist", *files]
    ended = subprocess.run([sys.executable, "-m", "pytest", *words], capture_output=True, text=True, cwd=TESTS.parent, timeout=1800)
    assert ended.returncode == 0, ended.stdout[-3000:]


def test_tensors_of_two_devices_do_not_mix(device):
    if device.type == "cpu":
        pytest.skip("there is one device")
    here, there = torch.ones(3), torch.ones(3, device="cpu")
    assert (here.device.type, there.device.type) == (device.type, "cpu")
    with pytest.raises(RuntimeError, match=r"(?i)expected all tensors"):
        here + there
    with pytest.raises(RuntimeError, match=r"(?i)expected all tensors"):
        segments.segment_sum(here, torch.tensor([2, 1], device="cpu"))
    assert here.to("cpu").tolist() == there.tolist()


def test_the_package_makes_its_tensors_where_its_data_are(device):
    counts = torch.tensor([2, 1])
    assert segments.segment_ids(counts).device.type == device.type
    assert segments.segment_argmax(torch.tensor([0.0, 1.0, 0.0]), counts).tolist() == [1, 2]
