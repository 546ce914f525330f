"""Names of version 0.1 and what they are now: its checkpoints are still read, and its command line still works for one release."""

from __future__ import annotations

import logging
import re
from typing import Any

log = logging.getLogger(__name__)
RENAMED = "%s is now called %s; the old name will stop working in the next release"
LITERALS = {"null": None, "none": None, "true": True, "false": False}

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
    "detection=weak": "module=detector",
    "detection=none": "module=exact",
    "detection.bound=": "module.supervised=",
    "detection.": "module.",
}
SHORT = {"data.path=": "data.images.path="}  # short words of the command line, which stay
DROPPED = ("alternate", "theta_to_backbone", "decision")  # options of EndToEndModule and EM that are gone
VALUES = {
    "cccp": {"full": "exact", "strict": "inexact"},
    "solver": {"frank_wolfe": "n_slack", "pegasos": "n_slack"},  # which were dropped
}


STOCHASTIC = "StochasticModule"  # which four modules replace
NETWORKS = ("prediction", "conditional", "optimizer_w", "optimizer_theta")  # options with which it took no dual steps by default
MODULES = {"dual": "DualModule", "sparse": "SparseModule", "soft": "SoftModule", "alternating": "AlternatingModule"}
OPTIONS = {  # those that each of the four has of its options
    "dual": ("average",),
    "sparse": ("optimizer_theta", "scheduler", "conditional", "average", "warmup_epochs", "patience", "norm"),
}
OPTIONS["soft"] = OPTIONS["alternating"] = (*OPTIONS["sparse"][:-1], "optimizer_w", "prediction")


def renamed_words(words: list[str]) -> list[str]:
    """Words of a command line with today's names in full; those of version 0.1 work for one release, and each is named in a warning.

    >>> renamed_words(["+disc.J=0.1", "solver=stochastic", "solver.norm=l1", "method.solver=one_slack", "data.path=photos"])
    ['+method.J=0.1', 'module=sparse', 'module.norm=l1', 'method.solver=one_slack', 'data.images.path=photos']
    """
    settings = dict(word.partition("=")[::2] for word in words)
    options = {name.removeprefix("solver."): LITERALS.get(value.lower(), value) for name, value in settings.items()}
    stochastic = "stochastic" in settings.get("solver", "").split(",")
    replaced = replacing(settings.get("method", "disc"), options)
    found = []
    for word in map(_word, words):
        name, equals, value = word.partition("=")
        prefix, name = name[: len(name) - len(name.lstrip("+~"))], name.lstrip("+~")
        new = word
        if name == "solver":
            new = "module=" + ",".join(replaced if one == "stochastic" else one for one in value.split(","))
        elif name.startswith("solver."):
            option = name.removeprefix("solver.")
            if stochastic and option.partition(".")[0] not in OPTIONS[replaced]:
                log.warning("%s is left out: module=%s has no such option", word, replaced)
                continue
            new = f"{prefix}module.{option}{equals}{value}"
        if new != word:
            log.warning(RENAMED, word, new)
        found.append(new)
    return found


def _word(word: str) -> str:
    prefix, rest = re.fullmatch(r"([+~]*)(.*)", word, re.DOTALL).groups()  # type: ignore[union-attr]
    for short, full in SHORT.items():
        if rest.startswith(short):
            return prefix + full + rest.removeprefix(short)
    old = max((old for old in WORDS if rest.startswith(old) and (old[-1] in "=." or rest == old)), key=len, default=None)
    if old is None:
        return word
    new = prefix + WORDS[old] + rest.removeprefix(old)
    log.warning(RENAMED, word, new)
    return new


def renamed_config(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a checkpoint with today's names.

    >>> renamed_config({"data": {"pictures": {"_target_": "lvmdc.data.cluttered_digits"}}})
    {'data': {'images': {'_target_': 'lvmdc.vision.datasets.cluttered_digits'}}}
    >>> renamed_config({"solver": {"_target_": "lvmdc.training.ExactModule"}, "method": {"solver": "n_slack"}})
    {'module': {'_target_': 'lvmdc.lightning.ExactModule'}, 'method': {'solver': 'n_slack'}}
    """
    found: dict[str, Any] = _renamed(config)
    if isinstance(found.get("solver"), dict):
        found = {"module" if key == "solver" else key: value for key, value in found.items()}
        if str(found["module"].get("_target_")).endswith(f".{STOCHASTIC}"):
            found["module"] = _replaced(found["module"], str((found.get("method") or {}).get("_target_")))
    detection = found.get("detection")
    if isinstance(detection, dict) and "detector" in detection:  # which stood beside the module, and is one now
        settings = {"supervised" if key == "bound" else key: value for key, value in detection.items()}
        found["module"] = {"_target_": "lvmdc.lightning.DetectorModule"} | settings
    return found


def replacing(method: str, options: dict[str, Any]) -> str:
    """Which module replaces the StochasticModule of version 0.1 with these options, for a method such as `lvmdc.DISC` or `disc`.

    >>> replacing("disc", {}), replacing("disc", {"dual": False}), replacing("lsvm", {"norm": "l1"})
    ('dual', 'alternating', 'sparse')
    """
    if options.get("norm") in ("l1", "group"):
        return "sparse"
    if method.lower().replace("_", "").endswith(("softdisc", "discsoft")):
        return "soft"
    return "alternating" if options.get("dual") is False or any(options.get(name) for name in NETWORKS) else "dual"


def renamed_checkpoint(checkpoint: dict[str, Any]) -> None:
    """Give the entries of a checkpoint of version 0.1 that Lightning restores today's names."""
    written = checkpoint["lvmdc"]
    if written["module"] == STOCHASTIC:
        written["module"] = renamed_config(written["config"])["module"]["_target_"].rpartition(".")[2]
    checkpoint["state_dict"] = {_weight(name): value for name, value in checkpoint["state_dict"].items()}


def _weight(name: str) -> str:
    return f"weights.{name.removeprefix('pair.')}" if name.startswith("pair.") else name


def _replaced(options: dict[str, Any], method: str) -> dict[str, Any]:
    kind = replacing(method, options)
    kept = {name: value for name, value in options.items() if name in OPTIONS[kind]}
    return {"_target_": f"lvmdc.lightning.{MODULES[kind]}"} | kept


def _renamed(config: Any) -> Any:
    if isinstance(config, list):
        return [_renamed(value) for value in config]
    if not isinstance(config, dict):
        return config
    if str(config.get("_target_")).endswith(".as_scenes"):  # which made of images of one class each what images are today
        return _renamed(config.get("images", config.get("pictures")))
    kept = {key: value for key, value in config.items() if key not in DROPPED}
    return {KEYS.get(key, key): _target(value) if key == "_target_" else _value(key, value) for key, value in kept.items()}


def _value(key: str, value: Any) -> Any:
    return VALUES.get(key, {}).get(value, value) if isinstance(value, str) else _renamed(value)


def _target(name: Any) -> Any:
    if not isinstance(name, str):
        return name
    begins = max((old for old in TARGETS if name.startswith(old)), key=len, default="")
    path = TARGETS.get(begins, "") + name.removeprefix(begins)
    first, dot, last = path.rpartition(".")
    return first + dot + KEYS.get(last, last)
