"""The stochastic solver beside the exact one on frozen features: objective and test loss, five folds.

The photographs of the mammals in the authors' windows, described by EfficientNet-Lite0, 60/40 by class. Both solvers have
the same settings and start; the stochastic one has the epochs and batches that solver=stochastic says. Printed are the objective (11)
on the training part and the test loss, mean and deviation over the folds, and the mean of stochastic − exact; CPU seconds are of one fold.

    python benchmarks/stochastic.py [--folds 5] [--epochs 200] [--C 1.0]
"""

import argparse
import copy
import itertools
import logging
import time
import warnings
from pathlib import Path

import numpy as np
import pytorch_lightning as pl
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from tqdm import tqdm

from lvmdc import DISC, LSVM, OverlapLoss, ZeroOneLoss
from lvmdc.learners import LatentLearner
from lvmdc.training import LatentDataModule, StochasticModule, resolvers
from lvmdc.training.evaluate import evaluate

LEARNERS = {"LSVM": LSVM(init="central"), "DISC": DISC(J=0.001, init="central")}
LOSSES = {"overlap": OverlapLoss(), "0/1": ZeroOneLoss()}
CONFIG = ["data=mammals", "proposals=mammals_windows", "features=cnn_roi", "solver=stochastic"]


def made() -> LatentDataModule:
    """The data as the command line makes them."""
    resolvers.register()
    with initialize_config_dir(str(Path(__file__).resolve().parents[1] / "configs"), version_base="1.3"):
        return instantiate(compose("train", overrides=CONFIG).data, _convert_="all")


def exact(learner: LatentLearner, data: LatentDataModule) -> tuple[float, float]:
    """Objective and test loss."""
    learner.fit(data.train.candidates, data.train.y)
    return learner.objective_, evaluate(data.test, learner.loss_, *learner.predict(data.test.candidates))["loss"]


def stochastic(learner: LatentLearner, data: LatentDataModule, epochs: int) -> tuple[float, float]:
    """The same."""
    module = StochasticModule(learner)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    trainer = pl.Trainer(max_epochs=epochs, limit_val_batches=0, num_sanity_val_steps=0, **quiet)
    trainer.fit(module, datamodule=data)
    return module.history()[-1]["objective"], module.measure(data.test)["loss"]


def row(name: str, values: np.ndarray, seconds: np.ndarray) -> str:
    """One line of the table, from (folds, 2 solvers, 2) objectives and losses."""
    cells = [f"{100 * values[:, s, 1].mean():.1f} ± {100 * values[:, s, 1].std(ddof=1):.1f}" for s in range(2)]
    objectives = [f"{values[:, s, 0].mean():.4f}" for s in range(2)]
    apart = values[:, 1] / values[:, 0] - 1
    gap = 100 * (values[:, 1, 1] - values[:, 0, 1]).mean()
    found = f"{name:<16}{objectives[0]:>10}{objectives[1]:>12}{100 * apart[:, 0].mean():>+10.2f}{100 * np.abs(apart[:, 0]).max():>10.2f}"
    return found + f"{cells[0]:>15}{cells[1]:>15}{gap:>+8.1f}{seconds[0]:>8.1f}{seconds[1]:>12.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--C", type=float, default=1.0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="pytorch_lightning")
    warnings.filterwarnings("ignore", message=".*stochastic solver stopped after.*")  # the objectives tell
    data, names = made(), list(itertools.product(LEARNERS, LOSSES))
    found, seconds = np.zeros((len(names), given.folds, 2, 2)), np.zeros((len(names), 2))
    bar = tqdm(total=found[..., 0].size, unit="training")
    for fold in range(given.folds):
        part = copy.copy(data)
        part.fold, part.train = fold, None
        part.setup()
        for i, (method, loss) in enumerate(names):
            learner = LEARNERS[method].set_params(loss=LOSSES[loss], C=given.C, seed=fold)
            for s in range(2):
                started = time.process_time()
                one = copy.deepcopy(learner)
                found[i, fold, s] = exact(one, part) if s == 0 else stochastic(one, part, given.epochs)
                seconds[i, s] += (time.process_time() - started) / given.folds
                bar.update()
    bar.close()
    print(f"C = {given.C:g}, J = 0.001, at most {given.epochs} epochs of batches of {data.batch_size}, {given.folds} folds")
    print(f"{'':<16}{'objective':>10}{'stochastic':>12}{'mean %':>10}{'most %':>10}{'test loss %':>15}{'stochastic':>15}", end="")
    print(f"{'gap':>8}{'CPU s':>8}{'stochastic':>12}")
    for i, (method, loss) in enumerate(names):
        print(row(f"{method}, {loss}", found[i], seconds[i]))


if __name__ == "__main__":
    main()
