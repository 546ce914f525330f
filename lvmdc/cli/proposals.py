"""The boxes of a data set in a file: the work of scripts/make_proposals.py."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from torch import Tensor
from tqdm import tqdm

from lvmdc.candidates import Candidates
from lvmdc.lightning.ranks import this_rank
from lvmdc.vision.datasets.images import PictureSet, Sources
from lvmdc.vision.datasets.scenes import SceneSet
from lvmdc.vision.metrics import box_recall, recall
from lvmdc.vision.proposals.base import Proposals
from lvmdc.vision.proposals.file import save_proposals

log = logging.getLogger(__name__)


def boxes_over_ranks(pictures: Sources, proposals: Proposals, progress: bool) -> list[Tensor]:
    """The boxes of every picture, on the first rank; under torchrun each rank makes those of some pictures."""
    world = int(os.environ.get("WORLD_SIZE", 1)) if dist.is_torchelastic_launched() else 1
    rank = this_rank() if world > 1 else 0
    own = range(len(pictures) * rank // world, len(pictures) * (rank + 1) // world)
    boxes = []
    for i in tqdm(own, desc="proposals", unit="picture", disable=not progress or rank > 0):
        boxes.append(proposals.boxes(pictures.image(i), pictures.names[i]))
    if world == 1:
        return boxes
    dist.init_process_group("gloo")
    parts: list[Any] | None = [None] * world if rank == 0 else None
    dist.gather_object(boxes, parts)
    dist.destroy_process_group()
    return [box for part in parts or [] for box in part]


def make_proposals(cfg: DictConfig) -> Path:
    """Write the boxes that `cfg.proposals` gives the pictures of `cfg.data`, for proposals=file; log how many true boxes they find."""
    kind = "scenes" if "scenes" in cfg.data else "pictures"
    if kind not in cfg.data:
        raise ValueError("data must have pictures to propose boxes for, but these make their candidates themselves")
    for group in (f"data.{kind}", "proposals"):
        missing = OmegaConf.missing_keys(OmegaConf.select(cfg, group))
        if missing:
            raise ValueError(f"{min(missing)} must be given: {min(missing)}=…")
    path = Path(cfg.output or Path(cfg.paths.output_dir) / "proposals.npz")
    if path.is_dir():
        raise IsADirectoryError(f"output must be the name of a file, but {path} is a folder")
    pictures: PictureSet | SceneSet = instantiate(cfg.data[kind], _convert_="all")
    made = instantiate(cfg.proposals, _convert_="all")
    proposals: Proposals = made if isinstance(made, Proposals) else made(pictures)
    if this_rank() == 0:
        log.info("%s\n%s", pictures, proposals)
    boxes = boxes_over_ranks(pictures, proposals, cfg.extras.progress)
    if this_rank() > 0:
        return path
    save_proposals(path, pictures.names, boxes)
    placed = Candidates(torch.zeros(sum(map(len, boxes)), 1), [len(part) for part in boxes], torch.cat(boxes))
    found = _found(placed, pictures)
    told = "" if found is None else f", {100 * found:.1f} % of the true boxes found at IoU 0.5"
    log.info("%.1f boxes a picture%s\nproposals  %s", placed.n_candidates / len(placed), told, path)
    return path


def _found(placed: Candidates, pictures: PictureSet | SceneSet) -> float | None:
    """The share of the true boxes that the candidates find, where they are known."""
    if isinstance(pictures, SceneSet):
        return None if pictures.truth is None or not len(pictures.truth) else box_recall(placed, pictures.truth)
    return None if pictures.boxes is None else recall(placed, pictures.boxes)
