import os
import pickle
import stat

import numpy as np
import pytest
import torch

from lvmdc import Candidates
from lvmdc.feature_maps import product
from lvmdc.storage import arrays as storage
from lvmdc.testing import random_candidates


@pytest.fixture
def candidates():
    c = random_candidates([3, 1, 4])
    return Candidates(c.features.float(), c.counts, c.boxes, phi=c.features[:, :2].half())


def assert_same(a, b):
    for name in ("features", "counts", "boxes", "phi"):
        one, two = getattr(a, name), getattr(b, name)
        assert (one is None and two is None) or (one.dtype == two.dtype and torch.equal(one, two))


@pytest.mark.parametrize("mmap", [None, False, True])
def test_what_was_saved_is_loaded(candidates, tmp_path, mmap):
    path = tmp_path / "new folder" / "set.npz"
    candidates.save(path)
    assert_same(Candidates.load(path, mmap), candidates)


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_a_file_written_by_numpy_alone_is_loaded(tmp_path, write, mmap):
    features = np.asfortranarray(np.random.default_rng(0).normal(size=(5, 3)))
    write(tmp_path / "set.npz", features=features, counts=[2, 3], remark="ignored")
    loaded = Candidates.load(str(tmp_path / "set.npz"), mmap)
    assert np.array_equal(loaded.features.numpy(), features)
    assert loaded.counts.tolist() == [2, 3]
    assert loaded.boxes is None


def test_a_mapped_set_reads_the_file_and_holds_no_copy(candidates, tmp_path):
    path = tmp_path / "set.npz"
    candidates.save(path)
    mapped, read = Candidates.load(path, mmap=True), Candidates.load(path, mmap=False)
    place = path.read_bytes().index(candidates.features.numpy().tobytes())
    with path.open("r+b") as file:
        file.seek(place)
        file.write(np.float32(42).tobytes())
    assert mapped.features[0, 0] == 42
    assert read.features[0, 0] == candidates.features[0, 0]


def test_large_files_are_mapped_and_small_ones_read(candidates, tmp_path, monkeypatch):
    candidates.save(tmp_path / "set.npz")
    names = ("features", "counts")
    assert not isinstance(storage.load_arrays(tmp_path / "set.npz", names)["features"], np.memmap)
    monkeypatch.setattr(storage, "MAP_ABOVE", 10)
    assert isinstance(storage.load_arrays(tmp_path / "set.npz", names)["features"], np.memmap)


def test_computations_on_a_map_are_those_in_memory(tmp_path):
    c = random_candidates([50, 30], n_features=17, dtype=torch.float32)
    for dtype in (torch.float16, torch.float32, torch.float64):
        c.to(dtype=dtype).save(tmp_path / "set.npz")
        mapped, table = Candidates.load(tmp_path / "set.npz", mmap=True), torch.ones(3, 17)
        assert torch.allclose(product(mapped.features, table), product(c.to(dtype=dtype).features.clone(), table))
        assert torch.equal(mapped.subset([1]).features, c.to(dtype=dtype).subset([1]).features)


def test_an_array_mapped_by_numpy_is_not_copied(tmp_path):
    np.save(tmp_path / "features.npy", np.eye(4, dtype=np.float32))
    array = np.load(tmp_path / "features.npy", mmap_mode="r")
    assert Candidates(array, [4]).features.data_ptr() == array.ctypes.data


# ---- what is refused ---------------------------------------------------------------------------------------------


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent\.npz does not exist"):
        Candidates.load(tmp_path / "absent.npz")


def test_a_missing_array_is_named_with_the_file(tmp_path):
    np.savez(tmp_path / "set.npz", features=np.eye(2), lengths=[2])
    with pytest.raises(ValueError, match=r"set\.npz lacks the array 'counts'; it holds \['features', 'lengths'\]"):
        Candidates.load(tmp_path / "set.npz")


@pytest.mark.parametrize("mmap", [False, True])
def test_python_objects_are_refused(tmp_path, mmap):
    np.savez(tmp_path / "set.npz", features=np.array([[{}]], dtype=object), counts=[1])
    with pytest.raises(ValueError, match=r"set\.npz .*[Oo]bject"):
        Candidates.load(tmp_path / "set.npz", mmap)


class Trap:
    """Makes a file beside the pickle when it is opened."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (self.path,))


@pytest.mark.parametrize("mmap", [False, True])
def test_no_pickle_is_opened(tmp_path, mmap):
    sprung = tmp_path / "sprung"
    (tmp_path / "bare.npz").write_bytes(pickle.dumps(Trap(str(sprung))))
    np.savez(tmp_path / "inside.npz", features=np.array([Trap(str(sprung))], dtype=object), counts=[1])
    for name in ("bare", "inside"):
        with pytest.raises(ValueError, match=rf"{name}\.npz"):
            Candidates.load(tmp_path / f"{name}.npz", mmap)
    assert not sprung.exists()


def damaged_files(whole):
    header = whole.index(b"\x93NUMPY")
    yield "truncated", whole[: len(whole) // 2], None
    yield "empty", b"", None
    yield "no zip", b"not an archive", None
    yield "wrong header", whole[:header] + b"\x00" + whole[header + 1 :], None
    yield "flipped bit", whole[: header + 140] + bytes([whole[header + 140] ^ 1]) + whole[header + 141 :], False  # a map has no checksum


@pytest.mark.parametrize("mmap", [False, True])
def test_damaged_files_are_refused_by_name(candidates, tmp_path, mmap):
    path = tmp_path / "set.npz"
    candidates.save(path)
    for damage, content, only in damaged_files(path.read_bytes()):
        path.write_bytes(content)
        if only is None or only == mmap:
            with pytest.raises(ValueError, match=r"set\.npz is damaged or not an npz file"):
                pytest.fail(f"{damage}: {Candidates.load(path, mmap)}")


def test_a_single_array_is_refused_by_name(tmp_path):
    np.save(tmp_path / "array.npy", np.eye(2))
    with pytest.raises(ValueError, match=r"array\.npy is damaged or not an npz file"):
        Candidates.load(tmp_path / "array.npy")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"features": np.eye(2), "counts": [3]}, r"set\.npz: counts must sum to features.shape\[0\] = 2"),
        ({"features": np.full((2, 2), np.nan), "counts": [2]}, r"set\.npz: features must be finite, but row 0"),
        ({"features": np.array([["a"]]), "counts": [1]}, r"set\.npz: Expected real numbers"),
    ],
)
def test_bad_contents_are_refused_with_the_file(tmp_path, arrays, message):
    np.savez(tmp_path / "set.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        Candidates.load(tmp_path / "set.npz")


# ---- never half a file -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_an_interrupted_save_leaves_the_old_file_and_no_other(candidates, tmp_path, monkeypatch, error):
    path = tmp_path / "set.npz"
    candidates.save(path)

    def interrupted(file, **arrays):
        file.write(b"half")
        raise error

    monkeypatch.setattr(np, "savez", interrupted)
    with pytest.raises(type(error)):
        random_candidates([1]).save(path)
    assert os.listdir(tmp_path) == ["set.npz"]
    assert_same(Candidates.load(path), candidates)


def test_saving_over_a_mapped_set_leaves_the_map_alone(candidates, tmp_path):
    candidates.save(tmp_path / "set.npz")
    mapped = Candidates.load(tmp_path / "set.npz", mmap=True)
    random_candidates([1]).save(tmp_path / "set.npz")
    assert_same(mapped, candidates)


def test_a_saved_file_may_be_read_by_whom_the_umask_lets(candidates, tmp_path):
    before = os.umask(0o027)
    try:
        candidates.save(tmp_path / "set.npz")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "set.npz").stat().st_mode) == 0o640


@pytest.mark.parametrize("mmap", [False, True])
def test_parts_are_joined_as_if_they_had_been_one(candidates, tmp_path, mmap):
    whole = {name: getattr(candidates, name).numpy() for name in ("features", "counts", "boxes", "phi")}
    bounds = {"counts": 1}
    parts = [{name: v[: bounds.get(name, 3)] for name, v in whole.items()}, {name: v[bounds.get(name, 3) :] for name, v in whole.items()}]
    storage.save_joined(tmp_path / "set.npz", parts)
    assert_same(Candidates.load(tmp_path / "set.npz", mmap), candidates)
    parts[1]["phi"] = parts[1]["phi"].astype(np.float64)
    with pytest.raises(ValueError, match=r"'phi' must have one type in all parts of .*, but one is float64"):
        storage.save_joined(tmp_path / "other.npz", parts)
    assert [path.name for path in tmp_path.iterdir()] == ["set.npz"]


def test_many_files_are_joined_with_few_of_them_open(candidates, tmp_path):
    resource = pytest.importorskip("resource")
    for i in range(40):
        candidates.save(tmp_path / f"{i}.npz")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 10, before[1]))
    try:
        parts = [storage.Stored(tmp_path / f"{i}.npz", ("features", "counts", "boxes")) for i in range(40)]
        storage.save_joined(tmp_path / "all.npz", parts)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert torch.equal(Candidates.load(tmp_path / "all.npz").features, candidates.features.repeat(40, 1))
