"""A public data set in the layout that the readers expect: `python scripts/prepare_data.py mammals source=spl/`.

python scripts/prepare_data.py mammals    [source=a clone or archive of its repository] [target=…]
python scripts/prepare_data.py voc_action [source=the official archive or a devkit] [year=2011] [target=…]

Without a source it says where to get one. The target is $LVMDC_DATA, or data/ where that is not set.
"""

import logging
import os
import sys

from lvmdc.cli.prepare import WHERE, prepare_mammals, prepare_voc_action

OPTIONS = {"mammals": {"source", "target"}, "voc_action": {"source", "target", "year"}}


def main() -> None:
    name, options = (sys.argv[1:2] or [""])[0], dict(word.partition("=")[::2] for word in sys.argv[2:])
    if name not in OPTIONS:
        sys.exit(f"{__doc__}\nerror: the data set must be one of {', '.join(OPTIONS)}, but it is {name!r}")
    unknown = sorted(set(options) - OPTIONS[name])
    if unknown:
        sys.exit(f"error: {unknown[0]!r} is not an option of {name}, which has {', '.join(sorted(OPTIONS[name]))}")
    if not options.get("source"):
        sys.exit(WHERE[name])
    target = options.get("target") or os.environ.get("LVMDC_DATA") or "data"
    logging.basicConfig(format="%(message)s")
    logging.getLogger("lvmdc.cli.prepare").setLevel(logging.INFO)
    try:
        if name == "mammals":
            place = prepare_mammals(options["source"], target)
        else:
            year = options.get("year") or "2011"
            place = prepare_voc_action(options["source"], target, int(year) if year.isdecimal() else year)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    print(f"{name}  {place}")


if __name__ == "__main__":
    main()
