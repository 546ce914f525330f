"""Learn from a configuration: `python scripts/train.py experiment=object_detection`; `--help` says what can be chosen."""

import sys
from pathlib import Path

import hydra
from omegaconf import DictConfig

from lvmdc.cli import config as resolvers
from lvmdc.cli import errors
from lvmdc.cli.train import detect, train

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
resolvers.register()


@hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name="train")
def main(cfg: DictConfig) -> float | None:
    with errors.one_sentence(CONFIGS):
        errors.check_types(cfg, CONFIGS)
        if cfg.detection:
            found = detect(cfg)
            return 1 - found["test/ap"] if "test/ap" in found else None
        measures = train(cfg)
    return measures.get("test/loss", measures.get("test/error"))


if __name__ == "__main__":
    sys.argv[1:] = resolvers.modern_words(sys.argv[1:])
    errors.run_script(main, CONFIGS)
