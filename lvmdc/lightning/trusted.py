"""What the configuration of a checkpoint may construct: a registry, since a checkpoint may come from anyone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial, reduce
from importlib import import_module
from typing import Any, TypeVar

from torch import nn, optim

# Everything of lvmdc that configs/ can put into the parts of a checkpoint that are made again: method, module, data, proposals, features.
# Functions are listed one by one; they read or make data sets, or make a network.
CONFIGURED = {
    "lvmdc": "DISC EM ILSVM LSVM M3E SoftDISC Supervised CostLoss LabelLoss OverlapLoss ZeroOneLoss ClassBlocks",
    "lvmdc.lightning": "AlternatingModule DetectorModule DualModule EndToEndModule ExactModule LatentDataModule SoftModule SparseModule "
    "mlp",
    "lvmdc.lightning.region_features": "Augmentation",
    "lvmdc.priors": "CentrePrior CentredBoxPrior CommonObjectPrior ObjectnessPrior ProductPrior SaliencyPrior",
    "lvmdc.sequences": "MotifMap motif planted_motifs",
    "lvmdc.vision.datasets": "cluttered_digits coco coco_scenes digit_scenes folder mammals rotated_digits stick_actions "
    "voc_action voc_detection",
    "lvmdc.vision.detection": "Detector ExclusiveDetector",
    "lvmdc.vision.features": "CNN Concatenated FileFeatures HOG KernelMap Learned RegionNetwork",
    "lvmdc.vision.proposals": "FileProposals FileProposals.for_images JitteredBoxes JitteredBoxes.around PeopleBoxes SelectiveSearch "
    "WindowGrid",
}
TORCH = ("torch.nn", "torch.optim")  # their modules, optimizers and schedulers
KINDS = (nn.Module, optim.Optimizer, optim.lr_scheduler.LRScheduler)
SPECIAL = ("_target_", "_args_", "_partial_", "_convert_")
DEPTH = 30  # of a configuration; ours have six levels

Target = TypeVar("Target", bound=Callable[..., Any])


def trust(target: Target) -> Target:
    """Let checkpoints construct a custom class, which their configuration names by its module; usable as a decorator.

    Call it in the program that reads the checkpoint: a checkpoint cannot add to the registry.

    >>> from lvmdc import OverlapLoss
    >>> @trust
    ... class MyLoss(OverlapLoss):
    ...     pass
    >>> type(construct({"_target_": f"{MyLoss.__module__}.MyLoss"}, "a.ckpt")).__name__
    'MyLoss'
    """
    _registry()[f"{target.__module__}.{target.__qualname__}"] = target
    return target


def construct(config: Any, where: str) -> Any:
    """Make what a configuration from a checkpoint names, if the registry has all of it. Nothing else is imported, called or resolved.

    The keys `_target_`, `_args_` and `_partial_` mean what they mean to Hydra, at any depth.

    Args:
        config: plain data, as `check_plain` says.
        where: the file that it is from, for messages.

    >>> construct({"_target_": "lvmdc.OverlapLoss"}, "a.ckpt")
    OverlapLoss()
    >>> construct({"_target_": "os.system", "command": "true"}, "a.ckpt")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: a.ckpt asks for os.system, which is not a part of lvmdc or torch that a checkpoint may construct, and is not run. If ...
    """
    check_plain(config, where)
    for name in _targets(config):
        _found(name, where)  # all of them before the first is run
    return _made(config, where)


def check_plain(config: Any, where: str, name: str = "its configuration", depth: int = 0) -> None:
    """Refuse what is not plain data: tables with names, lists, text, numbers. Interpolations such as `${oc.env:HOME}` are refused, too.

    >>> check_plain({"C": 1.0, "path": "${oc.env:HOME}"}, "a.ckpt")
    Traceback (most recent call last):
    ValueError: a.ckpt: its configuration has an interpolation at path, ${oc.env:HOME}, which is not resolved
    """
    if depth > DEPTH:
        raise ValueError(f"{where}: its configuration is nested more than {DEPTH} levels deep")
    if isinstance(config, dict):
        for key, value in config.items():
            if not isinstance(key, str | int) or "${" in str(key):
                raise ValueError(f"{where}: its configuration must have plain names, but one is {str(key)[:60]!r}")
            check_plain(value, where, str(key) if depth == 0 else f"{name}.{key}", depth + 1)
    elif isinstance(config, list):
        for i, value in enumerate(config):
            check_plain(value, where, f"{name}[{i}]", depth + 1)
    elif isinstance(config, str) and "${" in config:
        raise ValueError(f"{where}: its configuration has an interpolation at {name}, {config[:60]}, which is not resolved")
    elif config is not None and type(config) not in (str, int, float, bool):
        raise ValueError(f"{where}: its configuration must hold plain data, but {name} is of type {type(config).__name__}")


def _targets(config: Any) -> list[Any]:
    if isinstance(config, dict):
        own = [config["_target_"]] if "_target_" in config else []
        return own + [name for value in config.values() for name in _targets(value)]
    return [name for value in config for name in _targets(value)] if isinstance(config, list) else []


def _found(name: Any, where: str) -> Callable[..., Any]:
    if isinstance(name, str):
        target = _registry().get(name) or _of_torch(name)
        if target is not None:
            return target
    what = "which is not a part of lvmdc or torch that a checkpoint may construct, and is not run"
    remedy = "If the class is yours, put @lvmdc.lightning.trust before it and read the checkpoint in a program that imports its module"
    raise ValueError(f"{where} asks for {str(name)[:100]}, {what}. {remedy}: see docs/custom.md")


def _of_torch(name: str) -> Callable[..., Any] | None:
    """A class of torch.nn or torch.optim by its name, found where it is defined or exported, and in no module that these import."""
    place, _, last = name.rpartition(".")
    module = sys.modules.get(place) if any(place == root or place.startswith(f"{root}.") for root in TORCH) else None
    found = None if module is None else vars(module).get(last)
    ours = isinstance(found, type) and issubclass(found, KINDS) and found.__module__.startswith(tuple(f"{root}." for root in TORCH))
    return found if ours else None


@cache
def _registry() -> dict[str, Callable[..., Any]]:
    """By every name that lvmdc itself gives them: `lvmdc.DISC`, `lvmdc.learners.DISC`, `lvmdc.learners.disc.DISC`."""
    names: dict[str, Callable[..., Any]] = {}
    for home, name in ((home, name) for home, listed in CONFIGURED.items() for name in listed.split()):
        target: Any = reduce(getattr, name.split("."), import_module(home))
        names[f"{home}.{name}"] = target
        first, _, method = target.__qualname__.partition(".")
        packages = target.__module__.split(".")
        for i in range(1, len(packages) + 1):
            place = ".".join(packages[:i])
            holder = vars(sys.modules[place]).get(first)
            if holder is not None and (getattr(holder, method, None) if method else holder) == target:
                names[f"{place}.{target.__qualname__}"] = target
    return names


def _made(node: Any, where: str) -> Any:
    if isinstance(node, list):
        return [_made(value, where) for value in node]
    if not isinstance(node, dict):
        return node
    if "_target_" not in node:
        return {key: _made(value, where) for key, value in node.items()}
    target, later, arguments = _found(node["_target_"], where), node.get("_partial_", False), node.get("_args_", [])
    if not isinstance(later, bool) or not isinstance(arguments, list) or "_recursive_" in node:
        raise ValueError(f"{where}: {node['_target_']} must have a list _args_, a switch _partial_ and no _recursive_, if any of them")
    args = [_made(value, where) for value in arguments]
    settings = {str(key): _made(value, where) for key, value in node.items() if key not in SPECIAL}
    if later:
        return partial(target, *args, **settings)
    try:
        return target(*args, **settings)
    except (ValueError, OSError):  # a sentence already
        raise
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"{where}: {node['_target_']} cannot be made with its settings: {reason}") from error
