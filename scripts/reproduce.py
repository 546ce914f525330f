"""The experiments of the paper: `python scripts/reproduce.py figure=1` (objects) or 2 (actions); figure=demo needs no data."""

from lvmdc.cli.reproduce import main

if __name__ == "__main__":
    main()
