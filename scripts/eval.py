"""Measure a checkpoint on the test part of its data: `python scripts/eval.py ckpt_path=…`."""

from pathlib import Path

import hydra
from omegaconf import DictConfig

from lvmdc.cli import config as resolvers
from lvmdc.cli import errors
from lvmdc.cli.evaluate import evaluate_checkpoint

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
resolvers.register()


@hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name="eval")
def main(cfg: DictConfig) -> None:
    with errors.one_sentence(CONFIGS):
        evaluate_checkpoint(cfg)


if __name__ == "__main__":
    errors.run_script(main, CONFIGS)
