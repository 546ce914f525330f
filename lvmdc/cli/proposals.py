"""The boxes of a data set in a file."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import Tensor
from tqdm import tqdm

from lvmdc.candidates import Candidates
from lvmdc.cli import errors
from lvmdc.cli.config import checked
from lvmdc.lightning.ranks import this_rank
from lvmdc.vision.datasets.images import ImageSet
from lvmdc.vision.metrics import box_recall
from lvmdc.vision.proposals.base import Proposals
from lvmdc.vision.proposals.file import save_proposals

log = logging.getLogger(__name__)


def main(words: Sequence[str] | None = None) -> None:
    """`lvmdc proposals`, and scripts/make_proposals.py."""
    errors.run("make_proposals", make_proposals, words)


def boxes_over_ranks(images: ImageSet, proposals: Proposals, progress: bool) -> list[Tensor]:
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
    if "images" not in cfg.data:
        raise ValueError("data must have images to propose boxes for, but these make their candidates themselves")
    cfg = cfg.copy()
    cfg.data = {"images": cfg.data.images}  # the other settings of the data are not needed
    cfg = checked(cfg)
    path = Path(cfg.output or Path(cfg.paths.output_dir) / "proposals.npz")
    if path.is_dir():
        raise IsADirectoryError(f"output must be the name of a file, but {path} is a folder")
    images: ImageSet = instantiate(cfg.data.images, _convert_="all")
    made = instantiate(cfg.proposals, _convert_="all")
    proposals: Proposals = made if isinstance(made, Proposals) else made(images)
    if this_rank() == 0:
        log.info("%s\n%s", images, proposals)
    boxes = boxes_over_ranks(images, proposals, cfg.extras.progress)
    if this_rank() > 0:
        return path
    save_proposals(path, images.names, boxes)
    placed, truth, found = (
        Candidates(torch.zeros(sum(map(len, boxes)), 1), [len(part) for part in boxes], torch.cat(boxes)),
        images.truth,
        "",
    )
    if truth is not None and bool((~truth.difficult).any()):
        found = f", {100 * box_recall(placed, truth):.1f} % of the ground-truth boxes found at IoU 0.5"
    log.info("%.1f boxes per image%s\nproposals  %s", placed.n_candidates / len(placed), found, path)
    return path
