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
from lvmdc.vision.datasets.images import ImageSet, Sources
from lvmdc.vision.datasets.scenes import SceneSet
from lvmdc.vision.metrics import box_recall, recall
from lvmdc.vision.proposals.base import Proposals
from lvmdc.vision.proposals.file import save_proposals

log = logging.getLogger(__name__)


def boxes_over_ranks(images: Sources, proposals: Proposals, progress: bool) -> list[Tensor]:
    """The boxes of every image, on the first rank; under torchrun each rank makes those of some images."""
    world = int(os.environ.get("WORLD_SIZE", 1)) if dist.is_torchelastic_launched() else 1
    rank = this_rank() if world > 1 else 0
    own = range(len(images) * rank // world, len(images) * (rank + 1) // world)
    boxes = []
    for i in tqdm(own, desc="proposals", unit="image", disable=not progress or rank > 0):
        boxes.append(proposals.boxes(images.image(i), images.names[i]))
    if world == 1:
        return boxes
    dist.init_process_group("gloo")
    parts: list[Any] | None = [None] * world if rank == 0 else None
    dist.gather_object(boxes, parts)
    dist.destroy_process_group()
    return [box for part in parts or [] for box in part]


def make_proposals(cfg: DictConfig) -> Path:
    """Write the boxes that `cfg.proposals` gives the images of `cfg.data`, for proposals=file; log how many true boxes they find."""
    kind = "scenes" if "scenes" in cfg.data else "images"
    if kind not in cfg.data:
        raise ValueError("data must have images to propose boxes for, but these make their candidates themselves")
    for group in (f"data.{kind}", "proposals"):
        missing = OmegaConf.missing_keys(OmegaConf.select(cfg, group))
        if missing:
            raise ValueError(f"{min(missing)} must be given: {min(missing)}=…")
    path = Path(cfg.output or Path(cfg.paths.output_dir) / "proposals.npz")
    if path.is_dir():
        raise IsADirectoryError(f"output must be the name of a file, but {path} is a folder")
    images: ImageSet | SceneSet = instantiate(cfg.data[kind], _convert_="all")
    made = instantiate(cfg.proposals, _convert_="all")
    proposals: Proposals = made if isinstance(made, Proposals) else made(images)
    if this_rank() == 0:
        log.info("%s\n%s", images, proposals)
    boxes = boxes_over_ranks(images, proposals, cfg.extras.progress)
    if this_rank() > 0:
        return path
    save_proposals(path, images.names, boxes)
    placed = Candidates(torch.zeros(sum(map(len, boxes)), 1), [len(part) for part in boxes], torch.cat(boxes))
    found = _found(placed, images)
    told = "" if found is None else f", {100 * found:.1f} % of the true boxes found at IoU 0.5"
    log.info("%.1f boxes an image%s\nproposals  %s", placed.n_candidates / len(placed), told, path)
    return path


def _found(placed: Candidates, images: ImageSet | SceneSet) -> float | None:
    """The share of the true boxes that the candidates find, where they are known."""
    if isinstance(images, SceneSet):
        return None if images.truth is None or not len(images.truth) else box_recall(placed, images.truth)
    return None if images.boxes is None else recall(placed, images.boxes)
