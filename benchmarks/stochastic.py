"""The stochastic solver beside the exact one on frozen features: objective, gain and test loss.

The photographs of the mammals in the authors' windows, described by EfficientNet-Lite0, 60/40 by class. Both solvers have the same
settings and start. A third training is exact again, but from the h* at which the stochastic one ended, and, for DISC, with its θ held:
what it lacks is w alone, in the same basin. Where h is known (Supervised) the problem is convex, and there is but one optimum.

- objective: (11) on the training part. Two solvers that end with other h* or θ need not agree in it; the last two must.
- gain %: how far the stochastic solver lowered ½‖w‖² + C/n Σ ξ_i from what it is at w = 0, which is C for these losses, in percent of
  what the exact one did, and of what the exact one from its h* did: an objective by itself says nothing where nothing can be gained.
- test loss %: with its deviation over the folds. CPU s: of one fold.

Under the 0/1 loss little can be gained, and the rule by which solver=stochastic stops leaves a tenth of it: hence more epochs and patience
than its own 200 and 5. All takes six minutes of one core, `--folds 1` two.

    python benchmarks/stochastic.py [--folds 3] [--epochs 300] [--patience 20] [--C 1 10]
"""

import argparse
import copy
import itertools
import logging
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytorch_lightning as pl
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from torch import Tensor, nn
from tqdm import tqdm

from lvmdc import DISC, LSVM, OverlapLoss, Supervised, ZeroOneLoss
from lvmdc.inference import best_of_class
from lvmdc.learners import LatentLearner
from lvmdc.reporting import Table
from lvmdc.training import LatentDataModule, StochasticModule, resolvers
from lvmdc.training.evaluate import evaluate

LEARNERS = {"Supervised": Supervised(), "LSVM": LSVM(init="central"), "DISC": DISC(J=0.001, init="central")}
LOSSES = {"overlap": OverlapLoss(), "0/1": ZeroOneLoss()}
CONFIG = ["data=mammals", "proposals=mammals_windows", "features=cnn_roi", "solver=stochastic"]
QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
HEADS = ["", "C", "objective: exact", "stochastic", "exact from it", "gain %: of exact", "of exact from it"]
HEADS += ["test loss %: exact", "stochastic", "exact from it", "CPU s: exact", "stochastic"]


@dataclass(frozen=True)
class Found:
    """What a training ended with: (11), the part of it that w lowers, the loss on the test part, and how long it took."""

    objective: float
    w_part: float
    loss: float
    seconds: float


class Held(nn.Module):
    """A log-linear P_θ that has nothing to learn: scores (T, K) of features (T, d)."""

    def __init__(self, theta: Tensor):
        super().__init__()
        self.register_buffer("theta", theta)

    def forward(self, features: Tensor) -> Tensor:
        return features @ self.theta.to(features.dtype).T


def made() -> LatentDataModule:
    """The data as the command line makes them."""
    resolvers.register()
    with initialize_config_dir(str(Path(__file__).resolve().parents[1] / "configs"), version_base="1.3"):
        return instantiate(compose("train", overrides=CONFIG).data, _convert_="all")


def folds(data: LatentDataModule, n: int) -> Iterator[LatentDataModule]:
    for fold in range(n):
        part = copy.copy(data)
        part.fold, part.train = fold, None
        part.setup()
        yield part


def found(row: dict[str, float], C: float, loss: float, started: float) -> Found:
    return Found(row["objective"], row["w_norm"] + C * row["slack"], loss, time.process_time() - started)


def exact(learner: LatentLearner, data: LatentDataModule, h_init: Tensor | None = None) -> Found:
    """By the learner itself, from its own start or from the h that are given."""
    started, h = time.process_time(), data.train.h if isinstance(learner, Supervised) else None
    learner.fit(data.train.candidates, data.train.y, h=h, h_init=h_init)
    loss = evaluate(data.test, learner.loss_, *learner.predict(data.test.candidates))["loss"]
    return found(learner.history_[-1], learner.C, loss, started)


def stochastic(learner: LatentLearner, data: LatentDataModule, epochs: int, patience: int) -> tuple[Found, StochasticModule]:
    """The same by mini-batches."""
    started, module = time.process_time(), StochasticModule(learner, patience=patience)
    pl.Trainer(max_epochs=epochs, limit_val_batches=0, num_sanity_val_steps=0, **QUIET).fit(module, datamodule=data)
    return found(module.history()[-1], learner.C, module.measure(data.test)["loss"], started), module


def from_it(learner: LatentLearner, data: LatentDataModule, ended: Found, module: StochasticModule) -> Found:
    """The exact w in the basin where the stochastic one ended."""
    if isinstance(learner, Supervised):
        return exact(learner, data)
    c, y = data.train.candidates, data.train.y
    h = c.index(best_of_class(c, module.prediction(c).scores(c), y))
    held = {"conditional": Held(module.learner.theta_.detach())} if isinstance(learner, DISC) else {}
    one = exact(learner.set_params(init="given", **held), data, h)
    return replace(one, objective=ended.objective + one.w_part - ended.w_part)  # the terms of θ are the same


def compared(learner: LatentLearner, data: LatentDataModule, *limits: int) -> list[Found]:
    ended, module = stochastic(copy.deepcopy(learner), data, *limits)
    return [exact(copy.deepcopy(learner), data), ended, from_it(copy.deepcopy(learner), data, ended, module)]


def row(name: str, C: float, folds: list[list[Found]]) -> list[str]:
    """One line of the table."""
    objective, w_part, loss, seconds = (
        np.array([[getattr(one, field) for one in fold] for fold in folds]) for field in ("objective", "w_part", "loss", "seconds")
    )  # (folds, solvers) each
    gains = 100 * (C - w_part[:, 1].mean()) / (C - w_part.mean(axis=0))
    spread = 100 * loss.std(axis=0, ddof=1) if len(folds) > 1 else np.full(3, np.nan)
    cells = [f"{value:.4f}" for value in objective.mean(axis=0)] + [f"{gains[0]:.1f}", f"{gains[2]:.1f}"]
    cells += [f"{100 * m:.1f} ± {s:.1f}" for m, s in zip(loss.mean(axis=0), spread, strict=True)]
    return [name, f"{C:g}", *cells, *(f"{value:.1f}" for value in seconds.mean(axis=0)[:2])]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--patience", type=int, default=20)
    parser.add_argument("--C", type=float, nargs="+", default=[1.0, 10.0])
    given = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="pytorch_lightning")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*|.*stochastic solver stopped after.*")  # the objectives tell
    data, rows = made(), []
    parts = list(folds(data, given.folds))
    for method, loss, C in (bar := tqdm(list(itertools.product(LEARNERS, LOSSES, given.C)), unit="row")):
        bar.set_postfix_str(f"{method}, {loss}, C = {C:g}")
        learners = (LEARNERS[method].set_params(loss=LOSSES[loss], C=C, seed=part.fold) for part in parts)
        trained = [compared(learner, part, given.epochs, given.patience) for learner, part in zip(learners, parts, strict=True)]
        rows.append(row(f"{method}, {loss}", C, trained))
    limits = f"at most {given.epochs} epochs of batches of {data.batch_size}, solver.patience = {given.patience}"
    print(f"J = 0.001, {limits}, {given.folds} folds")
    print(Table(HEADS, rows, [False] + [True] * (len(HEADS) - 1)).text())


if __name__ == "__main__":
    main()
