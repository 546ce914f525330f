"""Compiled loops: numba's `njit`, whose machine code is kept in the user's cache folder.

numba by itself keeps it beside the source, from where a new installation removes it, and two processes that compile a loop at the same
time, for arguments of different types, may take the same file name: later the code of one is loaded for the other.
"""

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numba import config, njit
from numba.core.caching import FunctionCache
from platformdirs import user_cache_path

log = logging.getLogger(__name__)

FAST = {"reassoc", "contract", "arcp", "nsz"}  # sums may be reordered, which is what vector instructions need, but −inf stays −inf
Array = np.ndarray[Any, Any]
WAIT = 10.0  # seconds for another process that reads or writes machine code, which takes milliseconds
# numba forgets the code of a loop when its file changes, but not when a loop that it calls changes in another file. So a compiled loop
# calls those of its own file and of this one only, and another version of this one is another folder.
VERSION = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]


def cache_folder() -> Path:
    """Where machine code is kept: in `NUMBA_CACHE_DIR` where it is set, else in the user's cache folder. It may be deleted at any time.

    >>> cache_folder().name == f"compiled-{VERSION}"
    True
    """
    folder = Path(config.CACHE_DIR) if config.CACHE_DIR else user_cache_path("lvmdc", appauthor=False)
    return folder / f"compiled-{VERSION}"


class _Cache(FunctionCache):
    """That of numba, which one process at a time reads or writes."""

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with FileLock(Path(self.cache_path, ".lock"), timeout=WAIT):
            yield

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            with self._alone():
                found = super().load_overload(sig, target_context)
        except (OSError, Timeout) as error:
            log.warning("machine code is compiled, since what is kept in %s could not be read: %s", self.cache_path, error)
            return None
        if found is None:
            _first_time()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            with self._alone():
                super().save_overload(sig, data)
        except (OSError, Timeout) as error:
            log.warning("machine code could not be kept in %s: %s", self.cache_path, error)


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit(**options)` of a function, whose machine code is kept in `cache_folder()`.

    >>> @compiled()
    ... def double(x):
    ...     return 2 * x
    >>> double(4)
    8
    """

    def compile_later(function: Callable[..., Any]) -> Any:
        dispatcher = njit(**options)(function)
        before = config.CACHE_DIR
        config.CACHE_DIR = str(cache_folder())
        try:
            dispatcher._cache = _Cache(function)
        except RuntimeError:  # numba finds no folder to write to; or the source is not in a file, as in a doctest
            _not_kept()
        finally:
            config.CACHE_DIR = before
        return dispatcher

    return compile_later


@cache
def _first_time() -> None:
    """Say why it takes long, where nothing has been compiled on this machine."""
    if not any(cache_folder().rglob("*.nbc")):
        log.info("compiling numerical loops, once per machine, which takes up to a minute; they are kept in %s", cache_folder())


@cache
def _not_kept() -> None:  # said once
    log.warning("compiled loops are not kept, since %s cannot be written to: set NUMBA_CACHE_DIR to another folder", cache_folder())


@compiled(fastmath=FAST)
def dot(a: Array, b: Array) -> float:  # pragma: no cover
    """a·b, for other loops."""
    total = a[0] * b[0]
    for k in range(1, len(a)):
        total += a[k] * b[k]
    return total
