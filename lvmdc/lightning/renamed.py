"""What version 0.1 called the parts of a configuration, and what they are called now: its checkpoints and folders are still read."""

from typing import Any

# The longest beginning that fits counts.
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
}
KEYS = {"pictures": "images", "n_pictures": "n_images", "for_pictures": "for_images"}
VALUES = {"cccp": {"full": "exact", "strict": "inexact"}}


def renamed(config: Any) -> Any:
    """A configuration of plain data with today's names.

    >>> renamed({"data": {"pictures": {"_target_": "lvmdc.data.cluttered_digits"}}})
    {'data': {'images': {'_target_': 'lvmdc.vision.datasets.cluttered_digits'}}}
    """
    if isinstance(config, list):
        return [renamed(value) for value in config]
    if not isinstance(config, dict):
        return config
    return {KEYS.get(key, key): _target(value) if key == "_target_" else _value(key, value) for key, value in config.items()}


def _value(key: str, value: Any) -> Any:
    return VALUES.get(key, {}).get(value, value) if isinstance(value, str) else renamed(value)


def _target(name: Any) -> Any:
    if not isinstance(name, str):
        return name
    begins = max((old for old in TARGETS if name.startswith(old)), key=len, default="")
    path = TARGETS.get(begins, "") + name.removeprefix(begins)
    first, dot, last = path.rpartition(".")
    return first + dot + KEYS.get(last, last)
