"""Names that the configuration may compute, such as run folders that cannot collide, and words of older command lines."""

import atexit
import logging
import secrets
import shutil
import tempfile
from datetime import datetime
from pathlib import Path

from omegaconf import OmegaConf

from lvmdc.lightning.ranks import this_rank
from lvmdc.lightning.renamed import OPTIONS, replacing

log = logging.getLogger(__name__)
LITERALS = {"null": None, "none": None, "true": True, "false": False}


def run_id() -> str:
    """The time and a few random letters: two runs started in the same second still differ.

    >>> run_id() != run_id()
    True
    """
    return f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{secrets.token_hex(3)}"


def run_dir(log_dir: str, task_name: str, ckpt_path: str | None) -> str:
    """A new run folder, or, where a checkpoint is resumed, the one that it came from. Only the first of several ranks writes to it: the
    others get one that they leave again.

    >>> run_dir("logs", "demo", "logs/demo/runs/one/checkpoints/last.ckpt")
    'logs/demo/runs/one'
    """
    if this_rank() > 0:
        scratch = tempfile.mkdtemp(prefix="lvmdc_rank_")
        atexit.register(shutil.rmtree, scratch, ignore_errors=True)
        return scratch
    if ckpt_path and Path(ckpt_path).parent.name == "checkpoints":
        return str(Path(ckpt_path).parent.parent)
    return f"{log_dir}/{task_name}/runs/{run_id()}"


def register() -> None:
    """Make the names known to the configuration; each is computed once a run."""
    OmegaConf.register_new_resolver("run_id", run_id, use_cache=True, replace=True)
    OmegaConf.register_new_resolver("run_dir", run_dir, use_cache=True, replace=True)


def modern_words(words: list[str]) -> list[str]:
    """The words of a command line with today's names; those of version 0.1 are accepted for one release, with a warning.

    >>> modern_words(["solver=stochastic", "solver.norm=l1", "method.solver=one_slack"])
    ['module=sparse', 'module.norm=l1', 'method.solver=one_slack']
    """
    settings = dict(word.partition("=")[::2] for word in words)
    options = {name.removeprefix("solver."): LITERALS.get(value.lower(), value) for name, value in settings.items()}
    replaced = replacing(settings.get("method", "disc"), options)
    found = []
    for word in words:
        name, equals, value = word.partition("=")
        option = name.lstrip("+~").removeprefix("solver.") if name.lstrip("+~").startswith("solver.") else ""
        new = word
        if name == "solver":
            new = "module=" + ",".join(replaced if one == "stochastic" else one for one in value.split(","))
        elif option:
            of_another = "stochastic" in settings.get("solver", "").split(",") and option.partition(".")[0] not in OPTIONS[replaced]
            new = "" if of_another else name.replace("solver.", "module.", 1) + equals + value
        if new and new != word:
            log.warning("%s is now %s; the old name works for one release", word, new)
        elif not new:
            log.warning("%s is left out: module=%s has no such option", word, replaced)
        found += [new] if new else []
    return found
