"""Configurations: their structure, which settings their parts have, and the names of run folders.

The top of each configuration is a dataclass here, which Hydra checks. A part with a `_target_` has the settings of that class or function:
their names and types come from its signature.
"""

from __future__ import annotations

import atexit
import inspect
import logging
import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass, field, make_dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from hydra.utils import get_object
from omegaconf import MISSING, DictConfig, OmegaConf, open_dict
from omegaconf.errors import ConfigKeyError, ValidationError

from lvmdc.lightning.renamed import SHORT

log = logging.getLogger(__name__)
logging.getLogger("hydra.utils").setLevel(logging.CRITICAL)  # which logs several lines for what is one sentence here
INSTALLED = Path(__file__).resolve().parents[1] / "configs"  # in a wheel
CONFIGS = INSTALLED if INSTALLED.is_dir() else INSTALLED.parents[1] / "configs"  # in a clone
# What an experiment may set for those of its methods and features that have it; the others leave it out.
SHARED = {"method": ("J", "cccp"), "features": ("normalise", "longer_side", "contrast", "maps_dir")}
RANKS = {"RANK", "LOCAL_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK"}  # by which launchers say which rank a process is
KINDS = {int: "an integer", float: "a number", bool: "true or false", str: "text"}
SPECIAL = ("_target_", "_partial_", "_args_", "_convert_", "_recursive_")


@dataclass
class Paths:
    data_dir: str = MISSING
    log_dir: str = MISSING
    cache_dir: str | None = None
    output_dir: str = MISSING


@dataclass
class Extras:
    progress: bool = True
    threads: int | None = None
    report: bool = True


@dataclass
class Application:
    """What every configuration has."""

    task_name: str = MISSING
    paths: Paths = field(default_factory=Paths)


@dataclass
class Train(Application):
    tags: list[str] = field(default_factory=list)
    train: bool = True
    test: bool = True
    ckpt_path: str | None = None
    seed: int = 0
    monitor: str = MISSING
    extras: Extras = field(default_factory=Extras)
    data: Any = None
    proposals: Any = None
    features: Any = None
    kernel_map: Any = None
    prior: Any = None
    loss: Any = None
    method: Any = None
    prediction: Any = None
    conditional: Any = None
    module: Any = None
    trainer: Any = None
    callbacks: Any = None
    logger: Any = None


@dataclass
class Evaluate(Application):
    ckpt_path: str = MISSING
    overrides: list[str] = field(default_factory=list)


@dataclass
class Predict(Application):
    ckpt_path: str = MISSING
    input: str = MISSING
    output: str | None = None
    top_k: int | None = None
    min_score: float | None = None


@dataclass
class MakeProposals(Application):
    output: str | None = None
    extras: Extras = field(default_factory=Extras)
    data: Any = None
    proposals: Any = None


@dataclass
class Search:
    """The divisions by which settings are chosen."""

    folds: int = 3
    fraction: float = 0.75
    n_init: int | None = None


@dataclass
class Reproduce:
    name: str = MISSING
    title: str = MISSING
    out: str = MISSING
    needs: list[str] = field(default_factory=list)
    C: Any = None
    settings: Any = None
    methods: Any = None
    search: Any = None
    losses: Any = None
    compare: str = MISSING
    against: list[str] = field(default_factory=list)
    folds: int = 5
    by_fold: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    validation: Search = field(default_factory=Search)
    noise: int = 0
    run: bool = True
    redo: bool = False
    n_jobs: int | None = None
    memory: int | None = None
    examples: int = 6
    publish: str | None = None
    data: Any = None
    proposals: Any = None
    features: Any = None
    prior: Any = None
    joint: Any = None
    paper: Any = None
    paths: Paths = field(default_factory=Paths)
    extras: Extras = field(default_factory=Extras)


def register() -> None:
    """Make the structures and the computed names known to Hydra; each name is computed once per run."""
    for structure in (Train, Evaluate, Predict, MakeProposals, Reproduce):
        ConfigStore.instance().store(name=f"{structure.__name__.lower()}_structure", node=structure)
    OmegaConf.register_new_resolver("run_id", run_id, use_cache=True, replace=True)
    OmegaConf.register_new_resolver("run_dir", run_dir, use_cache=True, replace=True)
    OmegaConf.register_new_resolver("options", _help_options, replace=True)


def _help_options(command: str) -> str:
    from lvmdc.cli.options import help_options

    return help_options(command)


# ---- parts -----------------------------------------------------------------------------------------------------------


@cache
def settings_of(target: str) -> type | None:
    """The settings of a class or function as a dataclass, from its signature; None where it takes any.

    >>> list(settings_of("lvmdc.OverlapLoss").__annotations__), settings_of("lvmdc.LSVM").__annotations__["max_iter"]
    ([], <class 'int'>)
    """
    try:
        made: Any = get_object(target)
    except ImportError as error:
        cause = error.__cause__ or error
        remedy = "LVMDC_TRACEBACK=1 shows where"
        if isinstance(cause, ModuleNotFoundError):
            remedy = f"modules are looked for in this folder ({Path.cwd()}), in PYTHONPATH and among what is installed"
        raise ValueError(f"{target} cannot be imported: {type(cause).__name__}: {cause}; {remedy}") from error
    parameters = inspect.signature(made).parameters.values()
    if any(p.kind == p.VAR_KEYWORD for p in parameters):
        return None
    try:
        hints = get_type_hints(made.__init__ if inspect.isclass(made) else made)
    except NameError:  # of a type that is imported for type checkers alone
        hints = {}
    return make_dataclass(made.__qualname__, [(p.name, _simple(hints.get(p.name)), MISSING) for p in parameters])


def _simple(hint: Any) -> Any:
    """Numbers, switches and text; everything else is for the class itself to check."""
    if get_origin(hint) in (Union, UnionType):
        inner = [arm for arm in get_args(hint) if arm is not NoneType]
        return inner[0] | None if len(inner) == 1 and inner[0] in KINDS and len(get_args(hint)) == 2 else Any
    return hint if hint in KINDS else Any


def checked(cfg: DictConfig) -> DictConfig:
    """The configuration, with every part checked: nothing that must be given is missing, and names and types are those of the classes. What
    an experiment sets for other methods or features than the chosen ones is left out.

    >>> checked(OmegaConf.create({"method": {"_target_": "lvmdc.EM", "max_iter": "many"}}))
    Traceback (most recent call last):
    ValueError: method.max_iter must be an integer, but it is 'many'
    """
    cfg = cfg.copy()
    missing = OmegaConf.missing_keys(cfg)
    if missing:
        name = next((short for short, full in SHORT.items() if full == f"{min(missing)}="), f"{min(missing)}=").rstrip("=")
        raise ValueError(f"{name} must be given: add {name}=VALUE")
    for part, names in SHARED.items():
        node = cfg.get(part)
        structure = settings_of(node._target_) if node and "_target_" in node else None
        for name in names if structure is not None else ():
            if name in node and name not in structure.__annotations__:
                if f"{part}.{name}" in _typed():
                    raise ValueError(f"{node._target_} has no setting {name}, but the command line gives {part}.{name}")
                with open_dict(node):
                    del node[name]
                log.info("%s.%s is left out: %s has no such setting", part, name, node._target_)
    _check(OmegaConf.to_container(cfg, resolve=True), "")
    return cfg


def _typed() -> set[str]:
    """The names that the command line sets for this run; those of a sweep are for some of its runs."""
    single = HydraConfig.initialized() and HydraConfig.get().mode == RunMode.RUN
    words = HydraConfig.get().overrides.task if single else []
    return {word.split("=")[0].lstrip("+~") for word in words}


def _check(node: Any, name: str) -> None:
    if isinstance(node, list):
        for i, value in enumerate(node):
            _check(value, f"{name}{i}.")
    if not isinstance(node, dict):
        return
    structure = settings_of(node["_target_"]) if "_target_" in node else None
    if structure is not None:
        types = structure.__annotations__
        plain = {key: value for key, value in node.items() if key not in SPECIAL and not isinstance(value, dict | list)}
        try:
            OmegaConf.merge(OmegaConf.structured(structure), plain)
        except ConfigKeyError as error:
            raise ValueError(f"{name}{error.full_key} is not a setting of {node['_target_']}, which has {', '.join(types)}") from None
        except ValidationError as error:
            key = str(error.full_key)
            kind = next(KINDS[arm] for arm in (types[key], *get_args(types[key])) if arm in KINDS)
            raise ValueError(f"{name}{key} must be {kind}, but it is {plain[key]!r}") from None
    for key, value in node.items():
        _check(value, f"{name}{key}.")


# ---- run folders -----------------------------------------------------------------------------------------------------


def run_id() -> str:
    """The time and a few random letters: two runs started in the same second still differ.

    >>> run_id() != run_id()
    True
    """
    return f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{secrets.token_hex(3)}"


def _later_rank() -> bool:
    if not RANKS & os.environ.keys():  # no need to import Lightning, which takes long and --help does not need
        return False
    from lvmdc.lightning.ranks import this_rank

    return this_rank() > 0


def run_dir(log_dir: str, task_name: str, ckpt_path: str | None) -> str:
    """A new run folder, or, where a checkpoint is resumed, the one that it came from. Only the first of several ranks writes to it: the
    others get a temporary one.

    >>> run_dir("logs", "demo", "logs/demo/runs/one/checkpoints/last.ckpt")
    'logs/demo/runs/one'
    """

    if _later_rank():
        scratch = tempfile.mkdtemp(prefix="lvmdc_rank_")
        atexit.register(shutil.rmtree, scratch, ignore_errors=True)
        return scratch
    if ckpt_path and (Path(ckpt_path) / "checkpoints" / "last.ckpt").is_file():
        return ckpt_path
    if ckpt_path and Path(ckpt_path).parent.name == "checkpoints":
        return str(Path(ckpt_path).parent.parent)
    return f"{log_dir}/{task_name}/runs/{run_id()}"
