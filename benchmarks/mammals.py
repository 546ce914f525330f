"""The mammals as the benchmarks use them: the authors' HOG windows, read from $LVMDC_DATA/mammals/hog.npz."""

import os
import sys
from pathlib import Path

import numpy as np
import torch

from lvmdc import Candidates


class Mammals:
    """All 271 photographs: candidates in float32, labels, true windows, and the five published 245/26 folds."""

    def __init__(self) -> None:
        path = Path(os.environ.get("LVMDC_DATA", "data")) / "mammals" / "hog.npz"
        if not path.is_file():
            sys.exit(f"{path} does not exist: set LVMDC_DATA to the folder that holds mammals/hog.npz")
        with np.load(path, allow_pickle=False) as file:
            self.candidates = Candidates(file["features"].astype(np.float32), file["counts"], boxes=file["windows"])
            self.y, self.h = torch.from_numpy(file["labels"]), torch.from_numpy(file["truth"])
            self._folds = {name: torch.from_numpy(file[name]) for name in file.files if name[:5] in ("train", "test_")}

    def published_fold(self, fold: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Training and test indices of one of the published folds, 1 to 5."""
        return self._folds[f"train_{fold}"], self._folds[f"test_{fold}"]
