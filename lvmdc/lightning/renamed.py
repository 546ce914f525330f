"""Names of version 0.1 and what they are now: its checkpoints are still read, and its command line still works for one release."""

from __future__ import annotations

import logging
import re
from typing import Any

log = logging.getLogger(__name__)

# Classes and functions in configurations. The longest beginning that fits counts.
TARGETS = {
    "lvmdc.data.": "lvmdc.vision.datasets.",
    "lvmdc.data.MotifMap": "lvmdc.sequences.MotifMap",
    "lvmdc.data.motif": "lvmdc.sequences.motif",
    "lvmdc.data.planted_motifs": "lvmdc.sequences.planted_motifs",
    "lvmdc.detection.": "lvmdc.vision.detection.",
    "lvmdc.features.": "lvmdc.vision.features.",
    "lvmdc.proposals.": "lvmdc.vision.proposals.",
    "lvmdc.training.": "lvmdc.lightning.",
    "lvmdc.training.augmentation.": "lvmdc.lightning.region_features.",
    "lvmdc.training.detection_data.DetectionData": "lvmdc.lightning.LatentDataModule",
    "lvmdc.lightning.detection_data.DetectionData": "lvmdc.lightning.LatentDataModule",
}
KEYS = {"pictures": "images", "scenes": "images", "n_pictures": "n_images", "for_pictures": "for_images"}

# Words of the command line: the beginning of a word → its beginning now. Words that end in = name a group or a value in full.
WORDS = {
    "disc.J=": "method.J=",
    "svm.cccp=": "method.cccp=",
    "cnn.normalise=": "features.normalise=",
    "data.pictures.": "data.images.",
    "data.scenes.images.": "data.images.",
    "data.scenes.n_pictures=": "data.images.n_images=",
    "data.scenes.": "data.images.",
    "data=folder_scenes": "data=folder",
    "data=mammals_scenes": "data=mammals",
    "detection=weak": "solver=detector",
    "detection=none": "solver=exact",
    "detection.bound=": "solver.supervised=",
    "detection.": "solver.",
}
VALUES = {"cccp": {"full": "exact", "strict": "inexact"}}


def renamed_words(words: list[str]) -> list[str]:
    """Words of a command line with today's names; each old one is named in a warning.

    >>> renamed_words(["+disc.J=0.1", "data.fold=1"])
    ['+method.J=0.1', 'data.fold=1']
    """
    return [_word(word) for word in words]


def _word(word: str) -> str:
    prefix, rest = re.fullmatch(r"([+~]*)(.*)", word, re.DOTALL).groups()  # type: ignore[union-attr]
    old = max((old for old in WORDS if rest.startswith(old) and (old[-1] in "=." or rest == old)), key=len, default=None)
    if old is None:
        return word
    new = prefix + WORDS[old] + rest.removeprefix(old)
    log.warning("%s is now called %s; the old name will stop working in the next release", word, new)
    return new


def renamed_config(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a checkpoint with today's names.

    >>> renamed_config({"data": {"pictures": {"_target_": "lvmdc.data.cluttered_digits"}}})
    {'data': {'images': {'_target_': 'lvmdc.vision.datasets.cluttered_digits'}}}
    """
    found: dict[str, Any] = _renamed(config)
    detection = found.get("detection")
    if isinstance(detection, dict) and "detector" in detection:  # which stood beside the module, and is one now
        settings = {"supervised" if key == "bound" else key: value for key, value in detection.items()}
        found["solver"] = {"_target_": "lvmdc.lightning.DetectorModule"} | settings
    return found


def _renamed(config: Any) -> Any:
    if isinstance(config, list):
        return [_renamed(value) for value in config]
    if not isinstance(config, dict):
        return config
    if str(config.get("_target_")).endswith(".as_scenes"):  # which made of images of one class each what images are today
        return _renamed(config.get("images", config.get("pictures")))
    return {KEYS.get(key, key): _target(value) if key == "_target_" else _value(key, value) for key, value in config.items()}


def _value(key: str, value: Any) -> Any:
    return VALUES.get(key, {}).get(value, value) if isinstance(value, str) else _renamed(value)


def _target(name: Any) -> Any:
    if not isinstance(name, str):
        return name
    begins = max((old for old in TARGETS if name.startswith(old)), key=len, default="")
    path = TARGETS.get(begins, "") + name.removeprefix(begins)
    first, dot, last = path.rpartition(".")
    return first + dot + KEYS.get(last, last)
