"""Features on disk: learning from them gives what learning from memory gives, and holds little of them."""

import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from learners.problems import problem

from lvmdc import DISC, LSVM, Candidates, LabelLoss, ZeroOneLoss
from lvmdc.feature_maps import ClassBlocks, mixed_features, product, transposed_product
from lvmdc.solvers.n_slack.dual import NSlack
from lvmdc.solvers.n_slack.planes import Planes
from lvmdc.solvers.w_block import ImputedLatents, StructuredHinge
from lvmdc.storage import arrays as storage
from lvmdc.storage import mapped
from lvmdc.storage.mapped import is_mapped, release, row_chunks, stacked, take


def on_disk(array, folder, mode="r"):
    np.save(folder / "features.npy", np.asarray(array))
    return np.load(folder / "features.npy", mmap_mode=mode)


def two_sets(folder, dtype, **settings):
    """The same samples in memory and on disk."""
    p = problem(3, n=30, d=5, most=6, dtype=dtype, **settings)
    c = p.candidates
    return c, Candidates(on_disk(c.features, folder), c.counts, c.boxes), p.y


def held(path):
    """Bytes of a mapped file that this process holds."""
    maps = Path("/proc/self/smaps")
    if not maps.exists():
        pytest.skip("only Linux tells what of a file is resident")
    inside, total = False, 0
    for line in maps.read_text().splitlines():
        if line[0] in "0123456789abcdef":
            inside = line.endswith(str(path))
        elif inside and line.startswith("Rss:"):
            total += int(line.split()[1]) << 10
    return total


def test_views_of_a_file_are_known_to_be_mapped(tmp_path):
    c = Candidates(on_disk(np.eye(6, 3), tmp_path), [2, 4])
    for features in (c.features, c.detach().features, c.part(1, 2).features, c.for_phi().features, c.to("cpu").features):
        assert is_mapped(features)
    assert not is_mapped(c.subset([1]).features)  # a copy
    assert not is_mapped(Candidates(np.eye(6, 3), [2, 4]).features)


def test_released_rows_are_read_again(tmp_path):
    array = np.random.default_rng(0).normal(size=(5000, 3))
    features = Candidates(on_disk(array, tmp_path), [5000]).features
    for part in (features, features[4999:], features[17:2000], features[:0]):
        release(part)
        assert torch.equal(features, torch.from_numpy(array))


def test_what_was_written_to_a_private_copy_of_a_file_is_not_thrown_away(tmp_path):
    array = on_disk(np.zeros((2000, 3)), tmp_path, mode="c")
    c = Candidates(array, [2000])
    array[:] = 1.0
    release(c.features)
    assert bool((c.features == 1).all())


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_a_pass_holds_no_more_of_a_file_than_a_chunk(tmp_path, monkeypatch, dtype):
    size = 1 << 25  # bytes
    monkeypatch.setattr(mapped, "CHUNK_NUMBERS", 1 << 18)
    features = Candidates(
        on_disk(torch.ones(size // dtype.itemsize // 64, 64, dtype=dtype), tmp_path), [size // dtype.itemsize // 64]
    ).features
    table, scattered = torch.ones(2, 64), torch.arange(0, len(features), 97)
    path = tmp_path / "features.npy"
    assert float(product(features, table).sum()) == features.numel() * 2
    transposed_product(features, torch.ones(len(features), 1))
    assert held(path) < size // 4
    mixed_features(Candidates(features, [len(features) // 2] * 2), torch.ones(len(features)))
    assert held(path) < size // 4
    for part in row_chunks(features):
        assert part.numel() <= 1 << 18
        part.sum()
        assert held(path) < size // 4
    assert float(take(features, scattered).double().sum()) == 64 * len(scattered)
    assert held(path) < size // 4
    features.sum()
    assert held(path) > size // 2  # what the bound is compared with


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder of temporary files, and a limit above which there are any: one number."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(storage, "MAP_ABOVE", 1)
    return folder


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("index", [[3, 0], [0, 1, 1, 3, 2], [2], [1, 2]], ids=str)
def test_a_large_subset_of_a_file_is_a_file_that_leaves_nothing_behind(tmp_path, temporary, monkeypatch, dtype, index):
    monkeypatch.setattr(mapped, "CHUNK_NUMBERS", 7)
    monkeypatch.setattr(mapped, "GATHERED", 30)
    counts, rng = [4, 1, 30, 5], np.random.default_rng(0)
    features, phi = (rng.normal(size=(40, width)).astype(dtype) for width in (3, 2))
    memory = Candidates(features, counts, phi=phi)
    np.save(tmp_path / "phi.npy", phi)
    file = Candidates(on_disk(features, tmp_path), counts, phi=np.load(tmp_path / "phi.npy", mmap_mode="r"))
    for c, expected in ((file.subset(index), memory.subset(index)), (file.select([2, 0, 9, 1]), memory.select([2, 0, 9, 1]))):
        for name in ("features", "phi"):
            assert is_mapped(getattr(c, name))
            assert torch.equal(getattr(c, name), getattr(expected, name))
            release(getattr(c, name))
            assert torch.equal(getattr(c, name), getattr(expected, name))  # what was released can be read again
    assert is_mapped(file.subset(index).subset([0]).features)
    assert not list(temporary.iterdir())


def test_samples_that_follow_each_other_in_a_file_are_a_view_of_it(tmp_path, temporary):
    c = Candidates(on_disk(np.eye(6, 3), tmp_path), [2, 3, 1])
    assert c.subset([1, 2]).features.data_ptr() == c.features[2:].data_ptr()
    assert c.subset([2, 1]).features.untyped_storage().data_ptr() != c.features.untyped_storage().data_ptr()


@pytest.mark.slow
def test_a_large_subset_of_a_file_takes_no_memory_while_it_is_made(tmp_path, temporary, monkeypatch):
    size = 1 << 28  # bytes, many times what the process itself gains and loses meanwhile
    monkeypatch.setattr(mapped, "CHUNK_NUMBERS", 1 << 19)
    monkeypatch.setattr(mapped, "GATHERED", 1 << 22)
    features = Candidates(on_disk(np.ones((size // 1024, 256), np.float32), tmp_path), [64] * (size >> 16))
    chosen = torch.randperm(len(features), generator=torch.Generator().manual_seed(0))[: len(features) * 3 // 4]
    process, before_release, most = psutil.Process(), mapped.release, []

    def watched(part):
        most.append(process.memory_info().rss)
        before_release(part)

    monkeypatch.setattr(mapped, "release", watched)
    release(features.features)
    before = process.memory_info().rss
    part = features.subset(chosen)
    assert len(most) > 10
    assert max(most) - before < size // 4
    assert process.memory_info().rss - before < size // 8
    assert part.n_candidates * part.n_features * 4 == size * 3 // 4
    assert float(part.features.sum()) == part.features.numel()


def test_a_folder_of_temporary_files_that_is_full_is_named(tmp_path, temporary, monkeypatch):
    if not Path("/dev/full").exists():
        pytest.skip("only Linux has a device that is always full")
    c = Candidates(on_disk(np.eye(6, 3), tmp_path), [2, 3, 1])
    monkeypatch.setattr(tempfile, "TemporaryFile", partial(open, "/dev/full", "w+b"))
    with pytest.raises(OSError, match=f"{temporary}, the folder that TMPDIR names, must have room for 96 bytes of features, but: No space"):
        c.subset([2, 1])


@pytest.mark.slow
@pytest.mark.parametrize("scattered", [False, True])
def test_gathered_rows_hold_no_more_of_a_file_than_they_may(tmp_path, monkeypatch, scattered):
    size = 1 << 28  # bytes, many times what the process itself gains and loses meanwhile
    monkeypatch.setattr(mapped, "GATHERED", 1 << 23)
    features = Candidates(on_disk(np.ones((size // 1024, 256), np.float32), tmp_path), [size // 1024]).features
    rows = torch.randperm(len(features), generator=torch.Generator().manual_seed(0))[:3000] if scattered else torch.arange(5, 100_000)
    before_release, most = mapped.release, []

    def watched(part):
        most.append(held(tmp_path / "features.npy"))
        before_release(part)

    monkeypatch.setattr(mapped, "release", watched)
    assert float(take(features, rows).double().sum()) == 256 * len(rows)
    assert len(most) >= 10
    assert max(most) < (1 << 23) + 2 * mapped.MARGIN
    assert held(tmp_path / "features.npy") == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("sort", [False, True], ids=["mixed", "sorted"])
def test_the_scores_of_each_ones_class_and_their_transpose_are_those_of_memory(tmp_path, monkeypatch, dtype, sort):
    memory, disk, _ = two_sets(tmp_path, dtype)
    monkeypatch.setattr(mapped, "CHUNK_NUMBERS", 35)  # seven rows
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, len(memory))
    y, w = torch.from_numpy(np.sort(labels) if sort else labels), torch.from_numpy(rng.standard_normal(4 * 5))
    weights = torch.from_numpy(rng.standard_normal(memory.n_candidates)).to(torch.promote_types(dtype, torch.float32))
    joint = ClassBlocks(4)
    torch.testing.assert_close(joint.own_scores(disk, w, y), joint.own_scores(memory, w, y))
    torch.testing.assert_close(joint.own_transpose(disk, weights, y), joint.own_transpose(memory, weights, y))
    each = memory.features.double() @ w.reshape(4, 5).T  # every class, by definition
    torch.testing.assert_close(joint.own_scores(disk, w, y).double(), each.gather(1, y[memory.sample, None])[:, 0], atol=1e-2, rtol=1e-2)
    expected = torch.zeros(4, 5, dtype=torch.float64).index_add(0, y[memory.sample], weights.double()[:, None] * memory.features.double())
    torch.testing.assert_close(joint.own_transpose(disk, weights, y), expected.flatten(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("settings", [{}, {"cccp": "eager"}, {"solver": "one_slack"}, {"init": "uniform"}], ids=str)
@pytest.mark.parametrize(("method", "dtype"), [(LSVM, torch.float32), (DISC, torch.float16)])
def test_what_is_learned_from_a_file_is_what_is_learned_from_memory(tmp_path, monkeypatch, method, dtype, settings):
    monkeypatch.setattr(mapped, "CHUNK_NUMBERS", 50)
    monkeypatch.setattr(mapped, "GATHERED", 140)
    memory, file, y = two_sets(tmp_path, dtype, signal=6)
    one, two = (method(ZeroOneLoss(), C=5.0, **settings).fit(c, y) for c in (memory, file))
    assert is_mapped(file.features)
    assert torch.allclose(one.coef_, two.coef_, rtol=0, atol=1e-6)
    assert one.objective_ == pytest.approx(two.objective_, abs=1e-6)
    if dtype == torch.float16:  # is exact in float32, and sums are taken there in any case
        wide = method(ZeroOneLoss(), C=5.0, **settings).fit(memory.to(dtype=torch.float32), y)
        assert torch.allclose(one.coef_, wide.coef_, rtol=0, atol=1e-5)


def small_budget(folder, vectors_a_sample):
    _, file, y = two_sets(folder, torch.float16, signal=0.5)
    return StructuredHinge(file, y, ClassBlocks(3), 20.0, limit=int(vectors_a_sample * len(y)) * 4 * file.n_features)


def test_the_vectors_of_planes_stay_within_the_budget_and_the_optimum_is_found(tmp_path):
    values = []
    for vectors_a_sample in (2.5, 100):
        hinge = small_budget(tmp_path, vectors_a_sample)
        rows = hinge.candidates.offsets
        losses = LabelLoss().expected_loss(hinge.candidates, hinge.y, ImputedLatents(hinge, rows=rows).p.float())
        solver = NSlack(hinge)
        solution = solver.solve(losses, ImputedLatents(hinge, rows=rows), hinge.origin(), tol=1e-3)
        values.append(solution.value)
        assert solution.gap <= 1e-3
        assert solver.planes.vectors.dtype == np.float32
        assert solver.planes.vectors.nbytes <= hinge.limit
    assert values[0] == pytest.approx(values[1], abs=1e-3)


def test_a_budget_that_cannot_hold_a_vector_a_sample_is_refused(tmp_path):
    hinge = small_budget(tmp_path, 0.5)
    n = len(hinge.y)
    with pytest.raises(ValueError, match=r"memory_budget holds 15 vectors of planes of 20 bytes, but 30 more are needed"):
        Planes(hinge).add(np.arange(n), hinge.candidates.offsets.numpy(), np.zeros(n, np.int64))


def test_rows_made_part_by_part_are_a_file_where_the_features_are_one(tmp_path, temporary):
    parts = [torch.arange(6.0).reshape(3, 2), torch.arange(4.0).reshape(2, 2)]
    features = Candidates(on_disk(np.eye(6, 3), tmp_path), [6]).features
    file, memory = stacked(iter(parts), 5, like=features), stacked(iter(parts), 5, like=torch.eye(3))
    assert is_mapped(file)
    assert not is_mapped(memory)
    assert torch.equal(file, torch.cat(parts))
    assert torch.equal(memory, torch.cat(parts))
    assert not list(temporary.iterdir())
