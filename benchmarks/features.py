"""What a description of the candidates costs, and what can be learned from it: the 8,026 windows of the mammals, on one core.

The time is that of the processor, for all windows, images read and decoded. The losses are those of a supervised model on held-out
photographs: C = 1, 60/40 by class, mean and deviation of five folds.

    python benchmarks/features.py [names …]
"""

import os
import sys
import time
from pathlib import Path

import numpy as np
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from mammals import Mammals
from tqdm import tqdm

from lvmdc import Candidates, OverlapLoss, Supervised, ZeroOneLoss
from lvmdc.samples import split_by_class
from lvmdc.vision.datasets.images import read_image
from lvmdc.vision.features import Features

BOTH = [
    "features=hog_cnn",
    "features@features.parts.hog=hog_mammals",
    "features@features.parts.cnn=cnn_roi",
    "features.parts.cnn.normalise=null",
]
ROWS = {name: [f"features={name}"] for name in ("mammals_hog", "hog", "hog_mammals", "cnn", "hog_cnn")} | {
    "cnn_roi": ["features=cnn_roi", "features.normalise=null"],
    "cnn_roi, 2 × 2": ["features=cnn_roi", "features.normalise=null", "features.grid=2"],
    "hog_cnn, mammals": BOTH,
}
DATA = Path(os.environ.get("LVMDC_DATA", "data")) / "mammals"


def made(overrides: list[str]) -> Features:
    """The features that the command line would make."""
    with initialize_config_dir(str(Path(__file__).resolve().parents[1] / "configs"), version_base="1.3"):
        return instantiate(compose("train", overrides=overrides).features)


def described(features: Features, names: list[str], windows: list[torch.Tensor]) -> torch.Tensor:
    """(T, d) all windows of all photographs; a window that reaches over the edge of its photograph is cut off there."""
    rows = []
    for name, own in zip(tqdm(names, desc=type(features).__name__, unit="image"), windows, strict=True):
        image = read_image(DATA / "images" / name)
        rows.append(features.describe_named(image, name, torch.minimum(own, torch.tensor([image.width, image.height] * 2))))
    return torch.cat(rows)


def test_losses(candidates: Candidates, mammals: Mammals) -> list[str]:
    """Overlap and 0/1 loss in %."""
    found = []
    for loss in (OverlapLoss(), ZeroOneLoss()):
        values = []
        for fold in tqdm(range(5), desc=type(loss).__name__, unit="fold"):
            train, test = split_by_class(mammals.y, fold=fold)
            model = Supervised(loss=loss, C=1.0).fit(candidates.subset(train), mammals.y[train], h=mammals.h[train])
            values.append(100 * (1 - model.score(candidates.subset(test), mammals.y[test], mammals.h[test])))
        found.append(f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f}")
    return found


def main() -> None:
    unknown = [name for name in sys.argv[1:] if name not in ROWS]
    if unknown:
        sys.exit(f"{unknown[0]!r} is not one of {', '.join(ROWS)}")
    torch.set_num_threads(1)
    mammals = Mammals()
    with np.load(DATA / "hog.npz", allow_pickle=False) as file:
        names = file["images"].tolist()
    windows = list(mammals.candidates.boxes.split(mammals.candidates.counts.tolist()))
    lines = []
    for name in sys.argv[1:] or ROWS:
        features = made(ROWS[name])
        started = time.process_time()
        numbers = described(features, names, windows)
        seconds = time.process_time() - started
        # The losses are of the windows as they are, so that all rows measure the same.
        losses = test_losses(Candidates(numbers, mammals.candidates.counts, mammals.candidates.boxes), mammals)
        length = numbers.norm(dim=1).mean()
        lines.append(f"{name:<18}{numbers.shape[1]:>8}{length:>9.1f}{seconds:>9.1f}{losses[0]:>14}{losses[1]:>14}")
    print(f"{'features':<18}{'numbers':>8}{'length':>9}{'CPU s':>9}{'overlap %':>14}{'0/1 %':>14}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
