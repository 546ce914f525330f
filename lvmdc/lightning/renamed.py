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
STOCHASTIC = "StochasticModule"  # which four modules replace
NETWORKS = ("prediction", "conditional", "optimizer_w", "optimizer_theta")  # options with which it took no dual steps by default
MODULES = {"dual": "DualModule", "sparse": "SparseModule", "soft": "SoftModule", "alternating": "AlternatingModule"}
OPTIONS = {  # those that each of the four has of its options
    "dual": ("average",),
    "sparse": ("optimizer_theta", "scheduler", "conditional", "average", "warmup_epochs", "patience", "norm"),
}
OPTIONS["soft"] = OPTIONS["alternating"] = (*OPTIONS["sparse"][:-1], "optimizer_w", "prediction")


def renamed(config: Any) -> Any:
    """A configuration of plain data with today's names.

    >>> renamed({"data": {"pictures": {"_target_": "lvmdc.data.cluttered_digits"}}})
    {'data': {'images': {'_target_': 'lvmdc.vision.datasets.cluttered_digits'}}}
    >>> renamed({"solver": {"_target_": "lvmdc.training.ExactModule"}, "method": {"solver": "n_slack"}})
    {'module': {'_target_': 'lvmdc.lightning.ExactModule'}, 'method': {'solver': 'n_slack'}}
    """
    found = _renamed(config)
    if isinstance(found, dict) and isinstance(found.get("solver"), dict):
        found = {"module" if key == "solver" else key: value for key, value in found.items()}
        if str(found["module"].get("_target_")).endswith(f".{STOCHASTIC}"):
            found["module"] = _replaced(found["module"], str((found.get("method") or {}).get("_target_")))
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
        written["module"] = renamed(written["config"])["module"]["_target_"].rpartition(".")[2]
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
    return {KEYS.get(key, key): _target(value) if key == "_target_" else _renamed(value) for key, value in config.items()}


def _target(name: Any) -> Any:
    if not isinstance(name, str):
        return name
    begins = max((old for old in TARGETS if name.startswith(old)), key=len, default="")
    path = TARGETS.get(begins, "") + name.removeprefix(begins)
    first, dot, last = path.rpartition(".")
    return first + dot + KEYS.get(last, last)
