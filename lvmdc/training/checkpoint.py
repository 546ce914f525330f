"""Checkpoints from anywhere: tensors and plain data, and nothing that runs."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf

from lvmdc.training.data import LatentDataModule
from lvmdc.training.module import CHECKPOINT_KEY, LatentModule

TRUSTED = ("lvmdc.", "torch.nn.", "torch.optim.", "pytorch_lightning.")  # what a checkpoint's configuration may name


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint says of itself: its configuration, the names of its classes, and what was learned."""

    path: Path
    config: dict[str, Any]
    classes: list[str]
    learned: dict[str, Any]
    module: str

    def model(self) -> LatentModule:
        """The module that wrote it, ready to predict."""
        learner = instantiate_trusted(self.config["method"], self.path)
        solver = instantiate_trusted(self.config["solver"] | {"_partial_": True}, self.path)
        model: LatentModule = solver(learner=learner, config=self.config)
        model.classes = list(self.classes)
        model.load_learned(self.learned)
        return model

    def data(self, overrides: list[str]) -> LatentDataModule:
        """The data that it was learned from, or, by overrides such as `data.fold=2`, others."""
        config = OmegaConf.merge(OmegaConf.create(self.config), OmegaConf.from_dotlist(overrides))
        plain: Any = OmegaConf.to_container(config, resolve=True)
        data: LatentDataModule = instantiate_trusted(plain["data"], self.path)
        check_fits(self, data.classes)
        return data


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint, or say in a sentence why it is none."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"ckpt_path: {path} does not exist")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"ckpt_path: {path} is not a checkpoint that can be read: {reason}") from None
    if not isinstance(content, dict) or CHECKPOINT_KEY not in content:
        raise ValueError(f"ckpt_path: {path} is not a checkpoint of lvmdc: it lacks the entry {CHECKPOINT_KEY!r}")
    return Checkpoint(path, **content[CHECKPOINT_KEY])


def check_fits(checkpoint: Checkpoint, classes: list[str]) -> None:
    """Refuse a checkpoint that was learned for other classes."""
    if checkpoint.classes != classes:
        raise ValueError(
            f"ckpt_path: {checkpoint.path} knows {len(checkpoint.classes)} classes ({_few(checkpoint.classes)}),"
            f" but the data have {len(classes)} ({_few(classes)})"
        )


def instantiate_trusted(config: dict[str, Any], path: Path) -> Any:
    """Make what a checkpoint's configuration names, if it names only what belongs to us or to torch: it must run no other code."""
    for name in _targets(config):
        if not name.startswith(TRUSTED):
            raise ValueError(f"ckpt_path: {path} asks for {name}, which is not a part of lvmdc or torch, and is not run")
    return instantiate(OmegaConf.create(config), _convert_="all")


def _targets(config: Any) -> list[str]:
    if isinstance(config, dict):
        own = [str(config["_target_"])] if "_target_" in config else []
        return own + [name for value in config.values() for name in _targets(value)]
    return [name for value in config for name in _targets(value)] if isinstance(config, list) else []


def _few(names: list[str]) -> str:
    return ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
