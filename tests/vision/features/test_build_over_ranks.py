"""Two ranks share the work of making candidates, and get what one process makes, whoever began it."""

from contextlib import suppress

import pytest
import torch
import torch.distributed as dist
from processes import start_ranks
from test_build import Counting

from lvmdc.vision.datasets import cluttered_digits
from lvmdc.vision.features import build_candidates
from lvmdc.vision.proposals import WindowGrid

pytestmark = [pytest.mark.slow, pytest.mark.ranks]


def made_by(features, cache):
    return build_candidates(cluttered_digits(per_class=2), WindowGrid(), features, cache, progress=False)


def killed(after, cache):
    """What a process does that is killed after some images."""
    with suppress(KeyboardInterrupt):
        made_by(Counting(stops_after=after), cache)


def rank(index, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=index, world_size=2)
    features, found = Counting(), {}
    for name, cache in (("made", "cache"), ("read", "cache"), ("begun by one", "half"), ("alone", None)):
        before = features.calls
        made = made_by(features, None if cache is None else folder / cache)
        found[name] = {"calls": features.calls - before, "features": made.features, "counts": made.counts, "boxes": made.boxes}
    killed(2, folder / "other half")
    torch.save(found, folder / f"rank_{index}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    killed(5, folder / "half")
    start_ranks(rank, folder)
    return folder, [torch.load(folder / f"rank_{index}.pt", weights_only=True) for index in range(2)]


def test_two_ranks_make_the_candidates_of_one_process(found):
    alone = made_by(Counting(), None)
    for parts in found[1]:
        for made in parts.values():
            for name in ("features", "counts", "boxes"):
                assert torch.equal(made[name], getattr(alone, name))


def test_each_rank_describes_its_own_images_once_and_none_that_a_killed_process_had_done(found):
    calls = [{name: made["calls"] for name, made in parts.items()} for parts in found[1]]
    assert calls[0] == {"made": 6, "read": 0, "begun by one": 3, "alone": 12}
    assert calls[1] == {"made": 6, "read": 0, "begun by one": 4, "alone": 12}


def test_one_process_goes_on_with_what_two_ranks_had_done(found):
    features = Counting()
    made_by(features, found[0] / "other half")
    assert features.calls == 8


def test_one_file_is_left_and_it_is_the_same_whoever_made_it(found):
    made_by(Counting(), found[0] / "other half")
    files = [list((found[0] / name).iterdir()) for name in ("cache", "half", "other half")]
    assert [len(some) for some in files] == [1, 1, 1]
    assert len({file.read_bytes() for (file,) in files}) == 1
