"""Train from a configuration: `python scripts/train.py experiment=object_detection`; `--help` lists what can be chosen."""

from lvmdc.cli.train import main

if __name__ == "__main__":
    main()
