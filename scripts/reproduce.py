"""The experiments of the paper: `python scripts/reproduce.py figure=1` (objects) or 2 (actions); figure=demo needs no data."""

import sys
from pathlib import Path

import hydra
from omegaconf import DictConfig

from lvmdc.cli import config as resolvers
from lvmdc.cli import errors
from lvmdc.cli.reproduce import RunsFailed, quoted, reproduce

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
resolvers.register()


@hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name="reproduce")
def main(cfg: DictConfig) -> None:
    try:
        with errors.one_sentence(CONFIGS):
            errors.check_types(cfg, CONFIGS)
            reproduce(cfg)
    except RunsFailed as failed:
        sys.exit(f"error: {failed}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    sys.argv[1:] = quoted(sys.argv[1:])
    errors.run_script(main, CONFIGS)
