"""The way of a run through the package: `python tests/way.py experiment=object_detection …` prints the files it enters, in order."""

import runpy
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = str(ROOT / "lvmdc") + "/"


class Way:
    """The files of the package in the order in which a function of theirs is first called."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[str, str]] = {}  # file below lvmdc/ → the function by which it was entered, and the file that called it
        self._seen: set[CodeType] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code in self._seen:
            return
        self._seen.add(code)
        if code.co_filename.startswith(PACKAGE) and code.co_name != "<module>":
            file, caller = code.co_filename.removeprefix(PACKAGE), frame.f_back
            while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
                caller = caller.f_back
            above = "" if caller is None else caller.f_code.co_filename.removeprefix(PACKAGE)
            self.files.setdefault(file, (code.co_qualname, above))


def way_of(script: str, *words: str) -> dict[str, tuple[str, str]]:
    """Run a script in this process, after everything was imported."""
    import lvmdc.cli.train  # noqa: F401

    way = Way()
    sys.argv = [script, *words]
    threading.setprofile(way)
    sys.setprofile(way)
    try:
        runpy.run_path(str(ROOT / "scripts" / script), run_name="__main__")
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return way.files


if __name__ == "__main__":
    for i, (file, (function, caller)) in enumerate(way_of("train.py", *sys.argv[1:]).items(), start=1):
        print(f"{i:3} {file:32} {function:36} from {caller}")
