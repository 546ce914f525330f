"""The checkpoint of a detector: tensors and plain data with a checksum, and nothing that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.lightning.checkpoint import Saved, checked_entries, read_content
from lvmdc.lightning.trusted import construct
from lvmdc.vision.detection import Detector

DETECTOR_KEY = "lvmdc detector"


class DetectorFile(Saved):
    """The checkpoint of a detector."""

    def detector(self) -> Detector:
        """The detector, ready to predict; one that was killed before its last class is refused."""
        with self.named_errors():
            self.check_learned()
            lacking = [name for k, name in enumerate(self.classes) if str(k) not in self.learned["history"]]
            if lacking:
                raise ValueError(f"ckpt_path: {self.path} has not learned the class {lacking[0]!r} yet: resume its training first")
            make = construct(self.config["detection"]["detector"] | {"_partial_": True}, f"ckpt_path: {self.path}")
            detector: Detector = make(learner=self.learner())
            detector.load_state_dict(self.learned)
            probe = Candidates(torch.zeros(1, detector.n_features_in_), [1], torch.tensor([[0.0, 0.0, 1.0, 1.0]]))
            detector.predict(probe)
        return detector

    def check_learned(self) -> None:
        """Refuse weights that are not those of the classes, or not finite."""
        for name, columns in (("coef", None), ("calibration", 2)):
            table = self.learned[name]
            shape = tuple(table.shape) if isinstance(table, Tensor) else ()
            if len(shape) != 2 or shape[0] != len(self.classes) or shape[1] < 2 or (columns is not None and shape[1] != columns):
                raise ValueError(f"{name} must have a row for each of the {len(self.classes)} classes, but it has shape {shape}")
            if not table.is_floating_point() or not bool(table.isfinite().all()):
                raise ValueError(f"{name} must hold finite numbers, but it does not")
        if type(self.learned["bias"]) not in (int, float):
            raise ValueError(f"bias must be a number, but it is {str(self.learned['bias'])[:60]!r}")


def is_detector(path: str | Path) -> bool:
    """Whether a file is the checkpoint of a detector; what cannot be read at all is none."""
    try:
        return DETECTOR_KEY in read_content(path, quiet=True)
    except (OSError, ValueError):
        return False


def read_detector(path: str | Path) -> DetectorFile:
    """Read the checkpoint of a detector, or say in a sentence why it is none."""
    path = Path(path)
    content: dict[Any, Any] = read_content(path)
    if DETECTOR_KEY not in content:
        raise ValueError(f"ckpt_path: {path} is not the checkpoint of a detector of several classes")
    return checked_entries(path, content[DETECTOR_KEY], DetectorFile)
