"""From pictures to candidates: proposals, features, and the cache on disk."""

import logging
import os
from pathlib import Path

from tqdm import tqdm

from lvmdc import distributed
from lvmdc.candidates import Candidates
from lvmdc.data.sources import Sources
from lvmdc.features.base import Features
from lvmdc.features.cache import cache_key, cache_path, cached
from lvmdc.features.describe import Describer
from lvmdc.features.pieces import make_in_pieces
from lvmdc.priors.base import Prior
from lvmdc.proposals.base import Proposals

log = logging.getLogger(__name__)


def build_candidates(
    pictures: Sources,
    proposals: Proposals,
    features: Features,
    cache_dir: str | Path | None = None,
    progress: bool = True,
    prior: Prior | None = None,
) -> Candidates:
    """The candidates of every picture: where `proposals` says, looking as `features` says, and as likely before learning as `prior` says.

    With `cache_dir` the result is kept there, in the npz layout of `Candidates.save`, under a hash of the pictures' contents
    and all settings: it is read again only for the same inputs. A cache file that is damaged is named in a warning and made anew.
    The work is done and kept in pieces of a few pictures: one that is killed loses a piece, and what is larger than memory is never in it.
    Over the ranks of torch.distributed each makes some of the pieces, and they meet in the cache, which all of them must share;
    without a cache each makes all, in memory.

    >>> from lvmdc.data import cluttered_digits
    >>> from lvmdc.features import HOG
    >>> from lvmdc.proposals import WindowGrid
    >>> build_candidates(cluttered_digits(per_class=1), WindowGrid(), HOG(), progress=False)
    Candidates(6 samples, 150 candidates of 324 features, boxes, torch.float32, cpu)
    """
    describe, n = Describer(pictures, proposals, features, prior), len(pictures)
    if cache_dir is None:
        return describe(tqdm(range(n), desc="candidates", unit="picture", disable=not progress))
    _check_writable(Path(cache_dir))
    path = cache_path(cache_dir, cache_key(pictures, proposals, features, prior))
    found = cached(path, n) if distributed.ranks()[0] == 0 else None
    if distributed.told_by_first(found is not None):
        log.info("read the candidates from the cache %s", path)
        return Candidates.load(path) if found is None else found
    made = make_in_pieces(path, n, describe, progress)
    log.info("kept the candidates in the cache %s", path)
    return made


def _check_writable(directory: Path) -> None:
    """Refuse a folder that cannot take the result, before hours are spent on it."""
    if directory.exists() and not directory.is_dir():
        raise NotADirectoryError(f"cache_dir must be a folder, but {directory} is a file")
    directory.mkdir(parents=True, exist_ok=True)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise PermissionError(f"cache_dir must be a folder that can be written to, but {directory} cannot")
