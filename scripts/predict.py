"""Find the object in anyone's images: `python scripts/predict.py ckpt_path=… input=photos/`."""

from pathlib import Path

import hydra
from omegaconf import DictConfig

from lvmdc.cli import config as resolvers
from lvmdc.cli import errors
from lvmdc.cli.evaluate import predict_images

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
resolvers.register()


@hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name="predict")
def main(cfg: DictConfig) -> None:
    with errors.one_sentence(CONFIGS):
        predict_images(cfg)


if __name__ == "__main__":
    errors.run_script(main, CONFIGS)
