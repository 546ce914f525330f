"""The boxes of a data set in a file: `python scripts/make_proposals.py data=voc_action proposals=people output=people.npz`."""

from pathlib import Path

import hydra
from omegaconf import DictConfig

from lvmdc.cli import config as resolvers
from lvmdc.cli import errors
from lvmdc.cli.proposals import make_proposals

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
resolvers.register()


@hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name="make_proposals")
def main(cfg: DictConfig) -> None:
    with errors.one_sentence(CONFIGS):
        errors.check_types(cfg, CONFIGS)
        make_proposals(cfg)


if __name__ == "__main__":
    errors.run_script(main, CONFIGS)
