"""Dual steps on mini-batches beside the exact solver on frozen features: objective and test loss.

The photographs of the mammals in the authors' windows, described by EfficientNet-Lite0, 60/40 by class. Both solvers have the same
learner, start, tolerance and `cccp=`, and every other setting is what `module=exact` and `module=dual` have by default. Where h is
known (Supervised) the problem is convex, and there is but one optimum. Elsewhere where learning ends depends on the h* it meets: with
`exact` rounds every convex problem is solved before h* moves, so that both solvers should meet the same ones; with `inexact` rounds, the
default, and `eager` ones h* moves on a rough w, and even the order of the samples decides where that leads.

- objective: (11) on the training part; by how many percent the stochastic solver's mean is above (+) or below (−) the exact one's.
- by fold: the most that it is above or below in one fold.
- orders %: the deviation of the exact one's mean objective, over five orders of the samples, in percent: what the solver
  itself leaves open.
- gain %: how far the stochastic solver lowered ½‖w‖² + C/n Σ ξ_i from what it is at w = 0, which is C for these losses, in percent of
  what the exact one did: an objective by itself says little where little can be gained.
- test loss %: with its deviation over the folds. epochs, CPU s: of one fold.
- agree: the objective within 2 %, and the test losses within one standard deviation of the exact one's.

All takes some four minutes of one core for `inexact`, seven for `exact`.

    python benchmarks/stochastic.py [--folds 5] [--C 1 10] [--cccp inexact] [--epochs 200]
"""

import argparse
import copy
import itertools
import logging
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytorch_lightning as pl
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from tqdm import tqdm

from lvmdc import DISC, LSVM, OverlapLoss, Supervised, ZeroOneLoss
from lvmdc.cli import config as resolvers
from lvmdc.learners import LatentLearner
from lvmdc.lightning import DualModule, LatentDataModule
from lvmdc.lightning.module import evaluate
from lvmdc.reporting import Table

LEARNERS = {"Supervised": Supervised(), "LSVM": LSVM(init="central"), "DISC": DISC(J=0.001, init="central")}
LOSSES = {"overlap": OverlapLoss(), "0/1": ZeroOneLoss()}
CONFIG = ["data=mammals", "proposals=mammals_windows", "features=cnn_roi", "module=dual"]
QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
HEADS = ["", "C", "objective: exact", "stochastic", "%", "by fold", "orders %", "gain %", "test loss %: exact", "stochastic", "epochs"]
HEADS += ["CPU s: exact", "stochastic", "agree"]
ORDERS = 5
CLOSE = 2.0  # % between objectives


@dataclass(frozen=True)
class Found:
    """What a training ended with: (11), the part of it that w lowers, the loss on the test part, and how long it took."""

    objective: float
    w_part: float
    loss: float
    epochs: int
    seconds: float


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


def found(rows: list[dict[str, float]], C: float, loss: float, started: float) -> Found:
    last, seconds = rows[-1], time.process_time() - started
    return Found(last["objective"], last["w_norm"] + C * last["slack"], loss, len(rows), seconds)


def exact(learner: LatentLearner, data: LatentDataModule, order: int = 0) -> Found:
    """By the learner itself, the samples in an order of that number; 0: their own."""
    started, (c, y, h) = time.process_time(), (data.train.candidates, data.train.y, data.train.h)
    if order:
        index = torch.from_numpy(np.random.default_rng(order).permutation(len(y)))
        c, y, h = c.subset(index), y[index], h[index]
    learner.fit(c, y, h=h if isinstance(learner, Supervised) else None)
    loss = evaluate(data.test, learner.loss_, *learner.predict(data.test.candidates))["loss"]
    return found(learner.history_, learner.C, loss, started)


def stochastic(learner: LatentLearner, data: LatentDataModule, epochs: int) -> Found:
    """The same by mini-batches."""
    started, module = time.process_time(), DualModule(learner)
    pl.Trainer(max_epochs=epochs, limit_val_batches=0, num_sanity_val_steps=0, accelerator="cpu", **QUIET).fit(module, datamodule=data)
    return found(module.history(), learner.C, module.measure(data.test)["loss"], started)


def trained(learner: LatentLearner, data: LatentDataModule, epochs: int) -> list[Found]:
    """The exact solver, the stochastic one, and the exact one in other orders."""
    others = [exact(copy.deepcopy(learner), data, order) for order in range(1, ORDERS)]
    return [exact(copy.deepcopy(learner), data), stochastic(copy.deepcopy(learner), data, epochs), *others]


def row(name: str, C: float, folds: list[list[Found]]) -> list[str]:
    """One line of the table."""
    objective, w_part, loss, epochs, seconds = (
        np.array([[getattr(one, field) for one in fold] for fold in folds])
        for field in ("objective", "w_part", "loss", "epochs", "seconds")
    )  # (folds, trainings) each
    means = objective.mean(axis=0)
    apart, each = 100 * (means[1] / means[0] - 1), 100 * (objective[:, 1] / objective[:, 0] - 1)
    orders = 100 * np.delete(means, 1).std(ddof=1) / np.delete(means, 1).mean()
    gain = 100 * (C - w_part[:, 1].mean()) / (C - w_part[:, 0].mean())
    lost, spread = 100 * loss.mean(axis=0), 100 * loss.std(axis=0, ddof=1) if len(folds) > 1 else np.full(loss.shape[1], np.nan)
    cells = [f"{means[0]:.4f}", f"{means[1]:.4f}", f"{apart:+.2f}", f"{each[np.abs(each).argmax()]:+.1f}", f"{orders:.2f}", f"{gain:.1f}"]
    cells += [f"{m:.1f} ± {s:.1f}" for m, s in zip(lost[:2], spread[:2], strict=True)]
    cells += [f"{epochs[:, 1].mean():.0f}", *(f"{value:.1f}" for value in seconds.mean(axis=0)[:2])]
    agree = abs(apart) <= CLOSE and abs(lost[1] - lost[0]) <= spread[0]
    return [name, f"{C:g}", *cells, "yes" if agree else "no"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--C", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--cccp", default="inexact", choices=["exact", "inexact", "eager"])
    parser.add_argument("--epochs", type=int, default=200, help="at most; as configs/module/dual.yaml has it")
    given = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="pytorch_lightning")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*|.*learning stopped after.*")  # the objectives tell
    data, rows = made(), []
    parts = list(folds(data, given.folds))
    exact(copy.deepcopy(LEARNERS["Supervised"]), parts[0])  # compiled loops are loaded once
    for method, loss, C in (bar := tqdm(list(itertools.product(LEARNERS, LOSSES, given.C)), unit="row")):
        bar.set_postfix_str(f"{method}, {loss}, C = {C:g}")
        settings = {"loss": LOSSES[loss], "C": C, "cccp": given.cccp}
        learners = [copy.deepcopy(LEARNERS[method]).set_params(**settings, seed=part.fold) for part in parts]
        rows.append(row(f"{method}, {loss}", C, [trained(one, part, given.epochs) for one, part in zip(learners, parts, strict=True)]))
    print(f"J = 0.001, cccp={given.cccp}, at most {given.epochs} epochs of batches of {data.batch_size}, {given.folds} folds")
    print(Table(HEADS, rows, [False] + [True] * (len(HEADS) - 1)).text())
    count = sum(line[-1] == "yes" for line in rows)
    print(f"objective within {CLOSE:g} % and test loss within a standard deviation: {count} of {len(rows)} rows")


if __name__ == "__main__":
    main()
