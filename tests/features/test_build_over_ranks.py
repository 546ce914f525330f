"""Two ranks share the work of making candidates, and get what one process makes."""

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing
from features.test_build import Counting

from lvmdc.data import cluttered_digits
from lvmdc.features import build_candidates
from lvmdc.proposals import WindowGrid


def rank(index, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=index, world_size=2)
    features, pictures, found = Counting(), cluttered_digits(per_class=2), {}
    for name in ("made", "read", "killed", "alone"):
        cache = {"made": folder / "cache", "read": folder / "cache", "killed": folder / "half", "alone": None}[name]
        before = features.calls
        made = build_candidates(pictures, WindowGrid(), features, cache, progress=False)
        found[name] = {"calls": features.calls - before, "features": made.features, "counts": made.counts, "boxes": made.boxes}
        if name == "read" and index == 0:  # what a job leaves that is killed while one rank still works
            (folder / "half").mkdir()
            part = build_candidates(pictures.subset(torch.arange(6)), WindowGrid(), Counting(), None, progress=False)
            (whole,) = (folder / "cache").iterdir()
            part.save(folder / "half" / f"{whole.stem}-0-6.npz")
        dist.barrier()
    torch.save(found, folder / f"rank_{index}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    torch.multiprocessing.spawn(rank, (folder,), nprocs=2)
    return folder, [torch.load(folder / f"rank_{index}.pt", weights_only=True) for index in range(2)]


def test_two_ranks_make_the_candidates_of_one_process(found):
    alone = build_candidates(cluttered_digits(per_class=2), WindowGrid(), Counting(), progress=False)
    for parts in found[1]:
        for made in parts.values():
            for name in ("features", "counts", "boxes"):
                assert torch.equal(made[name], getattr(alone, name))


def test_each_rank_describes_its_own_pictures_once(found):
    calls = [{name: made["calls"] for name, made in parts.items()} for parts in found[1]]
    assert calls[0] == {"made": 6, "read": 0, "killed": 0, "alone": 12}
    assert calls[1] == {"made": 6, "read": 0, "killed": 6, "alone": 12}


def test_one_file_is_left(found):
    for name in ("cache", "half"):
        assert [path.suffix for path in (found[0] / name).iterdir()] == [".npz"]
