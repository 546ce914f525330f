import logging
import os
import weakref
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from PIL import Image

from lvmdc.storage import arrays as storage
from lvmdc.vision.datasets import ImageSet, cluttered_digits
from lvmdc.vision.features import HOG, Features, build_candidates
from lvmdc.vision.features import cache as shards
from lvmdc.vision.proposals import Proposals, WindowGrid


class Counting(Features):
    """The mean grey of each window, and how often it was asked for; stops after some images, like a killed job."""

    def __init__(self, factor=1.0, stops_after=None):
        self.factor, self.stops_after, self.calls = factor, stops_after, 0

    def describe(self, image, boxes):
        if self.calls == self.stops_after:
            raise KeyboardInterrupt
        self.calls += 1
        grey = np.asarray(image.convert("L"), np.float32)
        means = [grey[y1:y2, x1:x2].mean() for x1, y1, x2, y2 in boxes.long().tolist()]
        return self.factor * torch.tensor(means)[:, None]

    def settings(self):
        return {"factor": self.factor}


@pytest.fixture
def images():
    return cluttered_digits(per_class=2)


def build(images, features=None, cache_dir=None, proposals=None):
    return build_candidates(images, proposals or WindowGrid(), features or Counting(), cache_dir, progress=False)


def test_rows_are_those_of_each_image_in_turn():
    rng = np.random.default_rng(0)
    images = ImageSet([rng.integers(0, 255, shape, dtype=np.uint8) for shape in ((32, 40), (64, 64), (20, 20))], ["a"], [0, 0, 0])
    candidates = build(images)
    assert candidates.counts.tolist() == [2, 25, 1]
    for i in range(3):
        boxes = WindowGrid().boxes(images.image(i), "")
        part = candidates.subset([i])
        assert torch.equal(part.boxes, boxes)
        assert torch.equal(part.features, Counting().describe(images.image(i), boxes))


def test_the_second_build_reads_the_cache_and_gives_the_same(images, tmp_path):
    features = Counting()
    first = build(images, features, tmp_path)
    second = build(images, features, tmp_path)
    assert features.calls == len(images)
    for name in ("features", "counts", "boxes"):
        assert torch.equal(getattr(first, name), getattr(second, name))
    assert len(list(tmp_path.iterdir())) == 1  # and no temporary file


def test_a_changed_input_is_never_served_from_the_cache(images, tmp_path):
    build(images, cache_dir=tmp_path)
    changed = [
        lambda: build(images, Counting(2.0), tmp_path),
        lambda: build(images, cache_dir=tmp_path, proposals=WindowGrid(stride=16)),
        lambda: build(images.subset(range(11)), cache_dir=tmp_path),
        lambda: build(images, HOG(), tmp_path),
    ]
    for number, make in enumerate(changed, start=2):
        make()
        assert len(list(tmp_path.iterdir())) == number


@pytest.mark.parametrize(
    "damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"junk" * 100, lambda b: b[:200] + b"\xff" * 50 + b[250:]]
)
def test_a_damaged_cache_is_named_and_made_again(images, tmp_path, caplog, damage):
    first = build(images, cache_dir=tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    with caplog.at_level(logging.WARNING, logger="lvmdc"):
        again = build(images, cache_dir=tmp_path)
    assert str(file) in caplog.text
    assert torch.equal(first.features, again.features)
    caplog.clear()
    features = Counting()
    build(images, features, tmp_path)
    assert features.calls == 0


def broken_off(folder, images, after):
    """What a job leaves in the cache that is killed after some images."""
    with pytest.raises(KeyboardInterrupt):
        build(images, Counting(stops_after=after), folder)
    return sorted(folder.iterdir())


@pytest.mark.parametrize(("per_shard", "after", "left"), [(1, 5, 7), (4, 5, 8), (4, 0, 12), (5, 11, 2), (12, 5, 12)])
def test_an_interrupted_build_resumes_and_ends_in_the_same_bytes(tmp_path, images, monkeypatch, capsys, per_shard, after, left):
    monkeypatch.setattr(shards, "LARGEST", per_shard)
    monkeypatch.setattr(shards, "FEWEST", 1)
    build(images, cache_dir=tmp_path / "whole")
    assert len(broken_off(tmp_path / "half", images, after)) == after // per_shard
    features = Counting()
    build_candidates(images, WindowGrid(), features, tmp_path / "half", progress=True)
    assert features.calls == left
    shown = capsys.readouterr().err
    assert f"{12 - left}/12" in shown
    assert "12/12" in shown
    (one,), (two,) = (list((tmp_path / name).iterdir()) for name in ("whole", "half"))
    assert one.read_bytes() == two.read_bytes()


def test_shards_cover_all_images_once_and_are_enough_for_many_ranks():
    for n in (1, 12, 63, 64, 65, 200, 4095, 4096, 5000):
        cut = shards.shards_of(Path("a.npz"), n).values()
        assert [i for which in cut for i in which] == list(range(n))
        assert len(cut) >= min(n, shards.FEWEST)
        assert max(map(len, cut)) <= shards.LARGEST


def test_the_cache_holds_what_one_save_of_all_images_writes(images, tmp_path):
    build(images).save(tmp_path / "saved.npz")
    build(images, cache_dir=tmp_path / "cache")
    (file,) = (tmp_path / "cache").iterdir()
    assert file.read_bytes() == (tmp_path / "saved.npz").read_bytes()


def test_a_damaged_shard_is_made_again_and_shards_of_other_sizes_are_removed(tmp_path, images, caplog):
    kept = broken_off(tmp_path, images, 5)
    kept[2].write_bytes(kept[2].read_bytes()[:300])
    (tmp_path / f"{kept[0].name[:-8]}-0-6.npz").write_bytes(b"of another version")
    dead, alive = (tmp_path / f".{kept[0].name}.{name}.tmp" for name in ("dead", "alive"))
    for file in (dead, alive):
        file.write_bytes(b"half of it")
    os.utime(dead, (0, 0))
    features = Counting()
    with caplog.at_level(logging.WARNING, logger="lvmdc"):
        assert torch.equal(build(images, features, tmp_path).features, build(images).features)
    assert str(kept[2]) in caplog.text
    assert features.calls == 8
    assert len(list(tmp_path.glob("*.npz"))) == 1
    assert not dead.exists()
    assert alive.exists()


def test_two_jobs_that_make_the_same_at_once_do_not_disturb_each_other(tmp_path, images):
    class Overtaken(Counting):
        def describe(self, image, boxes):
            if self.calls == 3 and not other:
                other.append(None)
                other.append(build(images, self, tmp_path))
            return super().describe(image, boxes)

    other, features = [], Overtaken()
    made = build(images, features, tmp_path)
    assert features.calls == 3 + 9 + 1  # of the first, the other and the shard in progress
    assert torch.equal(made.features, other[1].features)
    assert torch.equal(made.features, build(images).features)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.slow
def test_what_is_made_is_not_held_in_memory(tmp_path, monkeypatch):
    class Long(Counting):
        def describe(self, image, boxes):
            held.append(psutil.Process().memory_info().rss)
            return super().describe(image, boxes).expand(-1, 20_000).contiguous()  # 2 MB

    monkeypatch.setattr(storage, "MAP_ABOVE", 1 << 24)
    monkeypatch.setattr(storage, "CHUNK", 1 << 22)
    held, images = [], cluttered_digits(per_class=10)
    build(images, Long(), tmp_path / "first")  # what is allocated once
    held.clear()
    before = psutil.Process().memory_info().rss
    candidates = build(images, Long(2.0), tmp_path / "second")
    assert candidates.features.nbytes == 120_000_000
    assert max(*held, psutil.Process().memory_info().rss) - before < 40_000_000


def test_an_interrupted_save_leaves_nothing_behind(images, tmp_path, monkeypatch):
    def half(file, **arrays):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", half)
    with pytest.raises(KeyboardInterrupt):
        build(images, cache_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_features_may_depend_on_the_name_of_an_image(images):
    class Named(Counting):
        def describe_named(self, image, name, boxes):
            return torch.full((len(boxes), 1), float(images.names.index(name)))

    assert torch.equal(build(images, Named()).features[:, 0], torch.arange(12.0).repeat_interleave(25))


def test_the_features_of_an_image_are_packed_at_once_and_not_held_twice(images):
    given = []

    class Watched(Counting):
        def describe(self, image, boxes):
            assert sum(reference() is not None for reference in given) <= 1
            numbers = super().describe(image, boxes)
            given.append(weakref.ref(numbers))
            return numbers

    assert torch.equal(build(images, Watched()).features, build(images).features)


def test_a_truncated_image_is_refused_by_name(tmp_path):
    file = tmp_path / "cut.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64), dtype=np.uint8)).save(file)
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"cut\.png cannot be read"):
        build(ImageSet([file], ["a"], [0]))


def test_boxes_and_features_of_a_wrong_shape_are_refused_with_the_image(images, tmp_path):
    class NoBoxes(WindowGrid):
        def boxes(self, image, name):
            return torch.zeros(0, 4)

    class Ragged(Counting):
        def describe(self, image, boxes):
            self.calls += 1
            return torch.zeros(len(boxes), self.calls)

    with pytest.raises(ValueError, match=r"digit 0 number 0 boxes of shape \(m, 4\)"):
        build(images, proposals=NoBoxes())
    for cache_dir in (None, tmp_path):
        with pytest.raises(ValueError, match=r"digit 0 number 1 features of shape \(25, 1\), but gave shape \(25, 2\)"):
            build(images, Ragged(), cache_dir)


def test_numbers_that_are_not_finite_are_refused_with_the_image(images, tmp_path):
    class Endless(Counting):
        def describe(self, image, boxes):
            return super().describe(image, boxes) / (self.calls < 5)

    with pytest.raises(ValueError, match="digit 3 number 0: features must be finite, but row 0"):
        build(images, Endless(), tmp_path)


def test_a_cache_folder_that_cannot_be_used_is_refused_before_any_work(images, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    features = Counting()
    with pytest.raises(NotADirectoryError, match="cache_dir must be a folder"):
        build(images, features, tmp_path / "file")
    monkeypatch.setattr(os, "access", lambda *a: False)
    with pytest.raises(PermissionError, match="can be written to"):
        build(images, features, tmp_path)
    assert features.calls == 0


def test_the_progress_bar_counts_images(images, capsys):
    build_candidates(images, WindowGrid(), Counting(), progress=True)
    assert "12/12" in capsys.readouterr().err
    build(images)
    assert capsys.readouterr().err == ""


def test_one_candidate_per_image_is_enough(images):
    class Whole(Proposals):
        def boxes(self, image, name):
            return torch.tensor([[0.0, 0.0, image.width, image.height]])

        def settings(self):
            return {}

    assert build(images, proposals=Whole()).counts.tolist() == [1] * 12
