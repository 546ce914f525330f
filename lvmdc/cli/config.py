"""Names that the configuration may compute: run folders that cannot collide."""

import atexit
import secrets
import shutil
import tempfile
from datetime import datetime
from pathlib import Path

from omegaconf import OmegaConf

from lvmdc.lightning.ranks import this_rank


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
