"""Many runs in one table: `python scripts/table.py logs/object_detection/sweeps/…`; without a folder, the newest sweep."""

import sys
from pathlib import Path

from lvmdc.cli.table import collect


def main() -> None:
    newest = sorted(Path("logs").glob("*/sweeps/*"), key=lambda path: path.stat().st_mtime)
    if len(sys.argv) < 2 and not newest:
        sys.exit("error: there is no sweep under logs/; name a folder of runs")
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else newest[-1]
    try:
        table = collect(folder)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    print(f"{folder}\n\n{table.text()}")


if __name__ == "__main__":
    main()
