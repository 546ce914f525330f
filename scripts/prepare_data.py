"""A public data set in the layout that the readers expect: `python scripts/prepare_data.py mammals source=spl/`."""

from lvmdc.cli.prepare import main

if __name__ == "__main__":
    main()
