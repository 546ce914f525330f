"""The protocol from a composed configuration, checked before any work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from lvmdc.reproduction.protocol import Method, Protocol
from lvmdc.reproduction.summary import Paper


def read_protocol(cfg: DictConfig) -> Protocol:
    """What `configs/reproduce.yaml` and the chosen figure say is to be run.

    >>> lsvm = {"learner": "lvmdc.LSVM", "grid": {"C": []}}
    >>> cfg = {"methods": {"LSVM": lsvm}, "losses": {"label": {"_target_": "lvmdc.LabelLoss"}}, "settings": {"tol": 0.001}}
    >>> cfg |= {"data": {"fraction": 0.6, "split_seed": 0}, "folds": 5, "seed": 0, "validation": {"folds": 1, "fraction": 0.75}}
    >>> read_protocol(OmegaConf.create(cfg))
    Traceback (most recent call last):
    ValueError: methods.LSVM.grid.C must be a list of at least one value, but it is []
    """
    plain: dict[str, Any] = {name: _plain(cfg, name) for name in ("data", "methods", "losses", "settings", "validation", "folds", "seed")}
    for name, value, unset in (
        ("data.fold", plain["data"].get("fold", 0), 0),
        ("data.val_fraction", plain["data"].get("val_fraction", 0), 0),
    ):
        if value != unset:
            raise ValueError(
                f"{name} must be left at {unset}, but it is {value}: a figure runs all of its folds, see folds= and validation="
            )
    methods = []
    for name, part in plain["methods"].items():
        if part is None:  # methods.Supervised=null leaves one out
            continue
        wrong = sorted(set(part) - {"learner", "settings", "grid"})
        if wrong:
            raise ValueError(f"methods.{name} must have learner, settings and grid, but it has {wrong[0]!r}")
        method = Method(name, str(part.get("learner")), plain["settings"] | (part.get("settings") or {}), part.get("grid") or {})
        methods.append(method)
    validation = plain["validation"]
    inner_settings = {} if validation.get("n_init") is None else {"n_init": validation["n_init"]}
    losses = {name: spec for name, spec in plain["losses"].items() if spec is not None}
    protocol = Protocol(
        methods,
        losses,
        plain["folds"],
        plain["data"]["fraction"],
        plain["data"]["split_seed"],
        plain["seed"],
        validation["folds"],
        validation["fraction"],
        inner_settings,
        bool(cfg.get("path", False)),
    )
    protocol.check()
    return protocol


def _plain(cfg: DictConfig, name: str) -> Any:
    """A part of the configuration as plain data."""
    return OmegaConf.to_container(cfg[name], resolve=True) if OmegaConf.is_config(cfg[name]) else cfg[name]


def read_paper(cfg: DictConfig) -> Paper:
    """The paper's numbers: loss → method → [mean, deviation], in percent.

    >>> read_paper(OmegaConf.create({"paper": {"zero_one": {"LSVM": [64.82, 4.96]}}}))
    {'zero_one': {'LSVM': (64.82, 4.96)}}
    """
    found: dict[str, dict[str, tuple[float, float]]] = {}
    plain: Any = OmegaConf.to_container(cfg.paper, resolve=True)
    for loss, methods in plain.items():
        for method, pair in methods.items():
            if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(v, int | float) for v in pair):
                raise ValueError(f"paper.{loss}.{method} must be [mean, deviation], but it is {pair}")
            found.setdefault(loss, {})[method] = (float(pair[0]), float(pair[1]))
    return found


def check_rest(cfg: DictConfig, protocol: Protocol) -> None:
    """Refuse files that are not there, comparisons with what is not run, and numbers out of range."""
    for path in cfg.needs:
        if not Path(path).exists():
            raise FileNotFoundError(f"{path} does not exist: LVMDC_DATA must name the folder of the data sets; figure=demo needs none")
    names = [method.name for method in protocol.methods]
    for name in [cfg.compare, *cfg.against]:
        if name is not None and name not in names and cfg.methods.get(name, 0) is not None:
            raise ValueError(f"compare and against must be among the methods {', '.join(names)}, but {name} is not")
    for name, least in (("n_jobs", 1), ("memory", 1), ("examples", 0)):
        if cfg[name] is not None and cfg[name] < least:
            raise ValueError(f"{name} must be at least {least}, but it is {cfg[name]}")
