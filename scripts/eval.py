"""Measure a checkpoint on the test part of its data: `python scripts/eval.py ckpt_path=…`."""

from lvmdc.cli.evaluate import main

if __name__ == "__main__":
    main()
