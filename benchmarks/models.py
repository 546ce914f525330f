"""Where kernel maps, sparse norms and networks help: DISC on the mammals, 60/40 by class, five folds, overlap loss.

Every row is what the overrides of its name train by `scripts/train.py`. C is chosen among two or three values by the loss on a quarter of
the training part, then everything is learned again from all of it; the test part is looked at once. Central start, J = 0.001; sparse
norms and networks have 40 epochs.

    python benchmarks/models.py [folds] [rows …]
"""

import logging
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from tqdm import tqdm

from lvmdc.cli import config as resolvers
from lvmdc.distributions import Prediction
from lvmdc.lightning import ExactModule, LatentDataModule, Samples
from lvmdc.lightning.module import evaluate

COMMON = ["data=mammals", "proposals=mammals_windows", "features=mammals_hog", "loss=overlap", "method.init=central", "method.J=0.001"]
EPOCHS = ["trainer.max_epochs=40"]
ROWS: dict[str, tuple[list[str], list[float]]] = {  # overrides, and values of C
    "linear": ([], [1.0, 10.0, 100.0]),
    "kernel_map=chi2": (["kernel_map=chi2"], [1.0, 10.0, 100.0]),
    "kernel_map=fourier": (["kernel_map=fourier"], [10.0, 100.0, 1000.0]),
    "kernel_map=nystroem": (["kernel_map=nystroem"], [10.0, 100.0, 1000.0]),
    "module=dual": (["module=dual"], [1.0, 10.0]),
    "module=alternating": (["module=alternating"], [1.0, 10.0]),
    "module.norm=l1": ([*EPOCHS, "module=sparse", "module.norm=l1"], [300.0, 1000.0]),
    "module.norm=group": ([*EPOCHS, "module=sparse", "module.norm=group"], [100.0, 300.0]),
    "prediction=mlp": ([*EPOCHS, "module=alternating", "prediction=mlp"], [10.0, 100.0]),
    "prediction=mlp conditional=mlp": ([*EPOCHS, "module=alternating", "prediction=mlp", "conditional=mlp"], [100.0, 1000.0]),
}


def learn(data: LatentDataModule, cfg: Any, C: float) -> tuple[Prediction, Any]:
    """P_w learned from the training part, and the learner."""
    learner, part = instantiate(cfg.method, _convert_="all").set_params(C=C), data.train
    assert part is not None
    module = instantiate(cfg.module, _partial_=True, _convert_="all")(learner=learner)
    if isinstance(module, ExactModule):
        learner.fit(part.candidates, part.y)
        return learner.prediction(part.candidates), learner
    quiet: dict[str, Any] = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    trainer = pl.Trainer(max_epochs=cfg.trainer.max_epochs, accelerator="cpu", limit_val_batches=0, **quiet)
    trainer.fit(module, datamodule=data)
    return module.prediction(part.candidates), learner


def losses(p_w: Prediction, learner: Any, samples: Samples | None) -> tuple[float, float]:
    """Overlap loss and class error in %."""
    assert samples is not None
    found = evaluate(samples, learner.loss_, *p_w.predict(samples.candidates))
    return 100 * found["loss"], 100 * found["error"]


def zeros(p_w: Prediction) -> float:
    """The share of w that is exactly zero, in %."""
    w = torch.cat([parameter.detach().flatten() for parameter in p_w.parameters()])
    return 100 * float((w == 0).double().mean())


def one(overrides: list[str], grid: list[float], fold: int) -> tuple[float, float, float, float, float]:
    """Test loss, class error, zeros, the C that validation chose and the CPU seconds of the last training."""
    with initialize_config_dir(str(Path(__file__).resolve().parents[1] / "configs"), version_base="1.3"):
        cfg = compose("train", overrides=[*COMMON, *overrides, f"data.fold={fold}", "extras.progress=false"])
    part: LatentDataModule = instantiate(cfg.data, val_fraction=0.25, _convert_="all")
    part.setup()
    tried = [losses(*learn(part, cfg, C), part.val)[0] for C in grid]
    C, data = grid[int(np.argmin(tried))], instantiate(cfg.data, _convert_="all")
    data.setup()
    began = time.process_time()
    p_w, learner = learn(data, cfg, C)
    seconds = time.process_time() - began
    return *losses(p_w, learner, data.test), zeros(p_w), C, seconds


def main() -> None:
    folds, names = int(sys.argv[1]) if len(sys.argv) > 1 else 5, sys.argv[2:] or list(ROWS)
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        sys.exit(f"{unknown[0]!r} is not one of {', '.join(ROWS)}")
    torch.set_num_threads(1)
    resolvers.register()
    warnings.filterwarnings("ignore")  # runs that are not at their end after that many epochs
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    print(f"{'':>32}{'overlap loss %':>16}{'class error %':>16}{'zeros %':>9}{'CPU s':>8}  C, by fold")
    for name in tqdm(names, unit="row"):
        found = [one(*ROWS[name], fold) for fold in tqdm(range(folds), desc=name, leave=False, unit="fold")]
        loss, error, zero, chosen, seconds = (np.array(column) for column in zip(*found, strict=True))
        cells = [f"{values.mean():.1f} ± {values.std(ddof=1):.1f}" for values in (loss, error)]
        tqdm.write(
            f"{name:>32}{cells[0]:>16}{cells[1]:>16}{zero.mean():>9.1f}{seconds.mean():>8.1f}  {', '.join(f'{C:g}' for C in chosen)}",
            file=sys.stdout,
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
