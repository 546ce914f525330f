"""Machine code of compiled loops: where it is kept, and that processes do not mix it up."""

import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import lvmdc

# Two processes that start together and compile the same loop for different types. Between reading and writing the list of files each
# waits, so that without a lock both read the list before either writes.
TOGETHER = """
import sys, time
from pathlib import Path
import numpy as np
from numba.core.caching import IndexDataCacheFile
from lvmdc.compiled import dot

read = IndexDataCacheFile._load_index
def slow(self):
    found = read(self)
    time.sleep(1.0)
    return found
IndexDataCacheFile._load_index = slow

dtype, here, other = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
here.touch()
while not other.exists():
    time.sleep(0.01)
assert dot(np.arange(3, dtype=dtype), np.ones(3, dtype)) == 3
"""
ONCE_MORE = """
import numpy as np
from lvmdc.compiled import dot
for dtype in (np.float32, np.float64):
    assert dot(np.arange(3, dtype=dtype), np.ones(3, dtype)) == 3
assert not dot.stats.cache_misses, dot.stats
"""


def python(code, *words, **environment):
    return subprocess.Popen([sys.executable, "-c", code, *map(str, words)], env={**os.environ, **environment}, stderr=subprocess.PIPE)


def succeeds(process):
    message = process.communicate(timeout=300)[1].decode()
    return process.returncode == 0 or pytest.fail(message)


@pytest.mark.slow
def test_processes_that_compile_together_keep_the_code_of_both(tmp_path):
    folder, a, b = tmp_path / "new", tmp_path / "a", tmp_path / "b"
    one = python(TOGETHER, "float32", a, b, NUMBA_CACHE_DIR=str(folder))
    two = python(TOGETHER, "float64", b, a, NUMBA_CACHE_DIR=str(folder))
    assert succeeds(one)
    assert succeeds(two)
    assert succeeds(python(ONCE_MORE, NUMBA_CACHE_DIR=str(folder)))


@pytest.mark.slow
def test_machine_code_is_kept_in_the_cache_folder_of_the_user(tmp_path):
    environment = {"NUMBA_CACHE_DIR": "", "XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    code = "import logging; logging.basicConfig(level=logging.INFO); import numpy as np; from lvmdc.compiled import cache_folder, dot; "
    code += "dot(np.ones(2), np.ones(2)); print(cache_folder())"
    for said in (True, False):  # why it takes long, the first time alone
        found = subprocess.run([sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True)
        folder = Path(found.stdout.strip())
        assert folder.is_relative_to(tmp_path)
        assert list(folder.rglob("*.nbc"))
        assert ("compiling numerical loops, once per machine" in found.stderr) == said


def test_compiled_loops_call_loops_of_their_own_file_or_of_compiled_alone():
    # numba does not see that a loop in another file has changed.
    modules = [importlib.import_module(found.name) for found in pkgutil.walk_packages(lvmdc.__path__, "lvmdc.")]
    loops = {id(loop): loop for module in modules for loop in vars(module).values() if isinstance(loop, Dispatcher)}.values()
    assert len(loops) > 10
    for loop in loops:
        function = loop.py_func
        called = [function.__globals__.get(name) for name in function.__code__.co_names]
        homes = {other.py_func.__module__ for other in called if isinstance(other, Dispatcher)}
        assert homes <= {function.__module__, "lvmdc.compiled"}, function


def test_a_folder_that_cannot_be_used_is_said_and_nothing_else_happens(tmp_path, caplog):
    from lvmdc.compiled import FAST, compiled

    source = tmp_path / "loops.py"
    source.write_text("def twice(x):\n    return 2 * x\n")
    space = {}
    exec(compile(source.read_text(), source, "exec"), space)
    loop = compiled(fastmath=FAST)(space["twice"])
    assert np.array_equal(loop(np.ones(2)), [2, 2])
    folder = Path(loop._cache.cache_path)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    folder.write_text("not a folder")
    assert np.array_equal(loop(np.ones(2, np.float32)), [2, 2])
    assert "could not be kept" in caplog.text
    folder.unlink()
