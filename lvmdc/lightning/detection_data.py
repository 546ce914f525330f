"""From images with several objects, proposals and features to the parts that a detector learns from and is tested on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from lvmdc.candidates import Candidates
from lvmdc.vision.datasets.scenes import SceneSet, split_scenes
from lvmdc.vision.features.base import Features
from lvmdc.vision.features.build import build_candidates
from lvmdc.vision.metrics import box_recall
from lvmdc.vision.proposals.base import Proposals

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Scenes:
    """Images and their candidates."""

    items: SceneSet
    candidates: Candidates

    def __len__(self) -> int:
        return len(self.items)

    def to(self, device: torch.device | str) -> Scenes:
        """The same with the candidates on another device."""
        return Scenes(self.items, self.candidates.to(device))


class DetectionData:
    """The training and test images of one fold.

    Args:
        scenes: the data set.
        proposals: where its candidates are.
        features: what they look like.
        fold: which of the independent divisions, for a data set that came in one part; `fraction` of the images trains.
        cache_dir: where candidates are kept between runs.
        batch_size: as the solver sets it; a detector learns from all images at once.
    """

    def __init__(
        self,
        scenes: SceneSet,
        proposals: Proposals | Callable[[SceneSet], Proposals],
        features: Features,
        fold: int = 0,
        fraction: float = 0.6,
        split_seed: int = 0,
        cache_dir: str | Path | None = None,
        progress: bool = True,
        batch_size: int | None = None,
    ):
        if not isinstance(proposals, Proposals):
            raise ValueError("proposals must not need the true box of an image's one object: these images have several")
        if batch_size is not None:
            raise ValueError("a detector of several classes is learned exactly: use module=exact")
        self.scenes, self.proposals, self.features = scenes, proposals, features
        self.cache_dir, self.progress = cache_dir, progress
        self.division = split_scenes(scenes, fraction, fold, split_seed)
        self.fold = fold

    @property
    def classes(self) -> list[str]:
        """The names of the classes, by index."""
        return self.scenes.classes

    def setup(self) -> tuple[Scenes, Scenes]:
        """The training and the test part, with their candidates; from the cache, where it has them."""
        candidates = build_candidates(self.scenes, self.proposals, self.features, self.cache_dir, self.progress)
        told, truth = "", self.scenes.truth
        if truth is not None and bool((~truth.difficult).any()):
            told = f", {100 * box_recall(candidates, truth):.1f} % of the true boxes found at IoU 0.5"
        log.info("proposals: %.1f boxes an image%s", candidates.n_candidates / len(candidates), told)
        train, test = (Scenes(self.scenes.subset(part), candidates.subset(part)) for part in self.division)
        return train, test
