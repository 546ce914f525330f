"""The LightningModule of the paper beside the exact solver: the objective (11) on the embedded digits.

The data are those of experiment=object_detection. `AlternatingModule` gets an optimizer and a number of epochs and no other help. SGD is
its default for a linear w (with Adam for a log-linear θ), without a rate to choose; Adam has rate 1e-3 for w and for θ.

- objective: (11) on the training part.
- above %: how far it is above that of the exact solver, in percent. Where learning ends depends on the h* that it meets, so that it may
  also end below.
- default init, likelihood; J = 0.001; batches of 32.

    python benchmarks/alternating.py [--C 1 10] [--epochs 200]
"""

import argparse
import copy
import logging
import time
import warnings
from functools import partial
from pathlib import Path

import pytorch_lightning as pl
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from tqdm import tqdm

from lvmdc import DISC, LSVM, OverlapLoss
from lvmdc.cli import config as resolvers
from lvmdc.learners import LatentLearner
from lvmdc.lightning import AlternatingModule, LatentDataModule

LEARNERS = {"LSVM": LSVM(OverlapLoss()), "DISC": DISC(OverlapLoss(), J=0.001)}
ADAM = partial(torch.optim.Adam, lr=1e-3)
OPTIMIZERS = {"SGD": {}, "Adam": {"optimizer_w": ADAM, "optimizer_theta": ADAM}}
QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}


def made() -> LatentDataModule:
    """The digits as `module=alternating` trains on them."""
    resolvers.register()
    with initialize_config_dir(str(Path(__file__).resolve().parents[1] / "configs"), version_base="1.3"):
        data = instantiate(compose("train", overrides=["experiment=object_detection", "module=alternating"]).data, _convert_="all")
    data.progress = False
    data.setup()
    return data


def alternating(learner: LatentLearner, data: LatentDataModule, epochs: int, optimizers: dict) -> tuple[float, int]:
    """(11) at the end, and after how many epochs."""
    module = AlternatingModule(learner, **optimizers)
    pl.Trainer(max_epochs=epochs, accelerator="cpu", limit_val_batches=0, num_sanity_val_steps=0, **QUIET).fit(module, datamodule=data)
    return module.history()[-1]["objective"], len(module.history())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--C", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--epochs", type=int, default=200, help="at most; as configs/module/alternating.yaml has it")
    given = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")  # the objectives show what is not at its end
    data, rows = made(), []
    with tqdm(total=len(LEARNERS) * len(given.C) * 3, unit="training") as bar:
        for name, C in ((name, C) for name in LEARNERS for C in given.C):
            exact = copy.deepcopy(LEARNERS[name]).set_params(C=C).fit(data.train.candidates, data.train.y).objective_
            bar.update()
            for optimizer, settings in OPTIMIZERS.items():
                started, learner = time.process_time(), copy.deepcopy(LEARNERS[name]).set_params(C=C)
                value, epochs = alternating(learner, data, given.epochs, settings)
                rows.append((name, C, exact, optimizer, value, 100 * (value / exact - 1), epochs, time.process_time() - started))
                bar.update()
    print(f"{len(data.train)} images, {data.train.candidates.n_candidates} candidates, at most {given.epochs} epochs")
    print(f"{'':>6}{'C':>6}{'exact':>10}{'':>8}{'objective':>11}{'above %':>9}{'epochs':>8}{'CPU s':>8}")
    for name, C, exact, optimizer, value, above, epochs, seconds in rows:
        print(f"{name:>6}{C:>6g}{exact:>10.4f}{optimizer:>8}{value:>11.4f}{above:>+9.2f}{epochs:>8}{seconds:>8.1f}")


if __name__ == "__main__":
    main()
