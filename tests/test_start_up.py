"""What a new process imports, and when."""

import subprocess
import sys

import pytest

HEAVY = ("cv2", "hydra", "matplotlib", "pandas", "pytorch_lightning", "sklearn", "sympy", "torch._dynamo", "torchvision")
FIT = """
import torch
from lvmdc import DISC, LSVM, Candidates, LabelLoss, OverlapLoss
boxes = [[0, 0, 2, 2], [1, 0, 3, 2], [2, 0, 4, 2]]
candidates = Candidates(torch.eye(6), [3, 3], boxes * 2)
LSVM(LabelLoss()).fit(candidates, [0, 1]).predict(candidates)
DISC(OverlapLoss()).fit(candidates, [0, 1])
"""


def heavy_modules(code):
    """Those of HEAVY that a new process has imported after `code`."""
    check = f"import sys; print(*(name for name in {HEAVY} if name in sys.modules))"
    return subprocess.run([sys.executable, "-c", f"{code}\n{check}"], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize("code", ["import lvmdc", FIT, "import lvmdc.chains", "import lvmdc.vision.detection, lvmdc.vision.datasets"])
def test_nothing_heavy_is_imported_before_it_is_needed(code):
    assert heavy_modules(code) == []
