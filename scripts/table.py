"""Many runs in one table: `python scripts/table.py logs/object_detection/sweeps/…`; without a folder, the newest sweep."""

from lvmdc.cli.table import main

if __name__ == "__main__":
    main()
