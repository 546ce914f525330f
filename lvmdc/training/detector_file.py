"""The checkpoint of a detector: tensors and plain data, and nothing that runs."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lvmdc.detection import Detector
from lvmdc.training.checkpoint import instantiate_trusted

DETECTOR_KEY = "lvmdc detector"


@dataclass(frozen=True)
class DetectorFile:
    """What the checkpoint of a detector says of itself: its configuration, the names of its classes, and what was learned."""

    path: Path
    config: dict[str, Any]
    classes: list[str]
    learned: dict[str, Any]

    def detector(self) -> Detector:
        """The detector, ready to predict; one that was killed before its last class is refused."""
        lacking = [name for k, name in enumerate(self.classes) if str(k) not in self.learned["history"]]
        if lacking:
            raise ValueError(f"ckpt_path: {self.path} has not learned the class {lacking[0]!r} yet: resume its training first")
        learner = instantiate_trusted(self.config["method"], self.path)
        detector: Detector = instantiate_trusted(self.config["detection"]["detector"] | {"_partial_": True}, self.path)(learner=learner)
        detector.load_state_dict(self.learned)
        return detector

    def check_fits(self, classes: list[str]) -> None:
        """Refuse other classes than it learned."""
        if self.classes != classes:
            raise ValueError(f"ckpt_path: {self.path} knows the classes {', '.join(self.classes)}, but the data have {', '.join(classes)}")


def is_detector(path: str | Path) -> bool:
    """Whether a file is the checkpoint of a detector; what cannot be read at all is none."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError, KeyError):
        return False
    return isinstance(content, dict) and DETECTOR_KEY in content


def read_detector(path: str | Path) -> DetectorFile:
    """Read the checkpoint of a detector, or say in a sentence why it is none."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"ckpt_path: {path} does not exist")
    if not is_detector(path):
        raise ValueError(f"ckpt_path: {path} is not the checkpoint of a detector of several classes")
    return DetectorFile(path, **torch.load(path, map_location="cpu", weights_only=True)[DETECTOR_KEY])
