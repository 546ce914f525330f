import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from references import SMALL
from sklearn.model_selection import KFold
from sklearn.utils import _safe_indexing

from lvmdc import Candidates
from lvmdc.arrays import as_tensor, check_finite
from lvmdc.testing import random_candidates

shapes = st.lists(st.integers(1, 5), min_size=1, max_size=5)
BOXES = [[0, 0, 1, 2], [1, 1, 3, 3], [0, 1, 5, 2]]


def with_phi(counts, seed=0):
    c = random_candidates(counts, seed)
    return Candidates(c.features, c.counts, c.boxes, phi=c.features[:, :2] + 1)


def assert_same(a, b):
    assert torch.equal(a.counts, b.counts)
    for name in ("features", "boxes", "phi", "prior"):
        one, two = getattr(a, name), getattr(b, name)
        assert (one is None) == (two is None)
        assert one is None or (one.dtype == two.dtype and torch.equal(one, two))


# ---- what it is made of ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor, tuple])
def test_arrays_tensors_and_lists_make_the_same_set(kind):
    c = Candidates(kind([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), kind([1, 2]), boxes=kind(BOXES), phi=kind([[1.0], [2.0], [3.0]]))
    assert c.features.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert c.counts.tolist() == [1, 2]
    assert c.boxes.tolist() == BOXES
    assert c.for_phi().features.tolist() == [[1], [2], [3]]
    assert (len(c), c.shape, c.n_candidates, c.n_features) == (2, (2,), 3, 2)


def test_an_array_is_shared_and_not_copied():
    array = np.ones((2, 3), np.float32)
    assert Candidates(array, [2]).features.data_ptr() == array.ctypes.data


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.bool_])
def test_whole_numbers_become_float32(dtype):
    c = Candidates(np.eye(3).astype(dtype), [3], phi=np.eye(3).astype(dtype))
    assert c.features.dtype == c.phi.dtype == torch.float32


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_precision_of_features_is_kept(dtype):
    assert str(Candidates(np.eye(3, dtype=dtype), [3]).features.dtype) == f"torch.{dtype.__name__}"


def test_reversed_foreign_and_read_only_arrays_are_taken():
    array = np.arange(6.0).reshape(3, 2)
    frozen = array.copy()
    frozen.setflags(write=False)
    for given_array in (array[::-1][::-1], array[::-1].copy()[::-1], array.astype(">f8"), np.asfortranarray(array), frozen):
        assert as_tensor(given_array).tolist() == array.tolist()


@SMALL
@given(shapes)
def test_sample_and_offsets_say_whose_each_row_is(counts):
    c = random_candidates(counts)
    assert c.sample.tolist() == [i for i, count in enumerate(counts) for _ in range(count)]
    assert c.offsets.tolist() == [sum(counts[:i]) for i in range(len(counts))]


@SMALL
@given(shapes, st.integers(0, 99))
def test_index_is_the_inverse_of_rows(counts, seed):
    c = random_candidates(counts)
    h = torch.tensor([(seed + i) % count for i, count in enumerate(counts)])
    assert torch.equal(c.index(c.rows(h)), h)
    every = torch.arange(c.n_candidates)
    assert torch.equal(c.index(every) + c.offsets[c.sample], every)


def test_latent_values_carry_index_box_and_row():
    c = random_candidates([2, 3])
    h = c.latent(torch.tensor([[1, 4]]))
    assert h.index.tolist() == [[1, 2]]
    assert torch.equal(h.box, c.boxes[torch.tensor([[1, 4]])])
    assert h.row.tolist() == [[1, 4]]
    assert Candidates(c.features, c.counts).latent(torch.tensor([0])).box is None


# ---- parts of it -------------------------------------------------------------------------------------------------


@SMALL
@given(shapes, st.lists(st.integers(0, 99), min_size=1, max_size=6))
def test_subset_takes_whole_samples_in_the_order_asked_for(counts, picks):
    c, index = with_phi(counts), [i % len(counts) for i in picks]
    part = c.subset(index)
    alone = [[i for i, s in enumerate(c.sample.tolist()) if s == k] for k in index]
    rows = [row for sample in alone for row in sample]
    assert part.counts.tolist() == [len(sample) for sample in alone]
    for name in ("features", "boxes", "phi"):
        assert torch.equal(getattr(part, name), getattr(c, name)[rows])
    assert part.sample.tolist() == [i for i, sample in enumerate(alone) for _ in sample]


def test_masks_slices_lists_and_numbers_choose_samples():
    c = with_phi([2, 1, 3])
    mask = np.array([True, False, True])
    for index in (
        mask,
        mask.tolist(),
        torch.tensor(mask),
        [0, 2],
        slice(None, None, 2),
        np.array([0, 2]),
        (np.array([0, 2]), ...),
        [-3, -1],
    ):
        assert_same(c[index], c.subset([0, 2]))
    assert_same(c[1], c.subset([1]))
    assert [len(one) for one in c] == [1, 1, 1]


def test_scikit_learn_takes_folds_of_it():
    c = with_phi([2, 1, 3, 1])
    folds = [test for _, test in KFold(2).split(c)]
    assert [fold.tolist() for fold in folds] == [[0, 1], [2, 3]]
    assert_same(_safe_indexing(c, folds[1]), c.subset([2, 3]))


def test_select_keeps_one_candidate_of_each_sample():
    c = with_phi([2, 1, 3])
    assert_same(c.select([1, 0, 2]), Candidates(c.features[[1, 2, 5]], [1, 1, 1], c.boxes[[1, 2, 5]], c.phi[[1, 2, 5]]))


def test_concat_of_the_parts_is_the_whole():
    c = with_phi([2, 1, 3])
    assert_same(Candidates.concat([c[:1], c[1:]]), c)
    assert_same(Candidates.concat([c]), c)


def test_phi_stands_in_for_features_where_it_is_given():
    c = with_phi([2, 1])
    assert torch.equal(c.for_phi().features, c.phi)
    assert c.for_phi().phi is None
    plain = random_candidates([2])
    assert plain.for_phi() is plain


def test_to_changes_precision_of_features_alone():
    c = with_phi([2, 1]).to(dtype=torch.float16)
    assert (c.features.dtype, c.phi.dtype, c.boxes.dtype, c.counts.dtype) == (torch.float16, torch.float16, torch.float64, torch.int64)
    assert c.to("cpu").device == torch.device("cpu")
    meta = c.to("meta")
    assert {t.device.type for t in (meta.features, meta.counts, meta.boxes, meta.phi)} == {"meta"}


def test_repr_says_how_much_there_is(device):
    where = with_phi([2, 1]).device
    assert where.type == device.type
    assert repr(with_phi([2, 1])) == f"Candidates(2 samples, 3 candidates of 3 features, boxes, phi of 2, torch.float64, {where})"


# ---- what it refuses ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": torch.zeros(3)}, r"features must have shape \(T, d\), but it has shape \(3,\)"),
        ({"features": [[0.0], [float("nan")], [0.0]]}, "features must be finite, but row 1 holds NaN"),
        ({"features": [[0.0], [0.0], [-float("inf")]]}, "features must be finite, but row 2 holds"),
        ({"features": torch.tensor([[0.0], [0.0], [torch.inf]], dtype=torch.float16)}, "features must be finite, but row 2"),
        ({"counts": [3, 0]}, "counts must give every sample a candidate, but sample 1 has 0"),
        ({"counts": [4, -1]}, "counts must give every sample a candidate, but sample 1 has -1"),
        ({"counts": [1, 1]}, r"counts must sum to features.shape\[0\] = 3, but it sums to 2"),
        ({"counts": []}, "counts must be integers of shape"),
        ({"counts": 3}, "counts must be integers of shape"),
        ({"counts": [1.0, 2.0]}, "counts must be integers .* but it is torch.float64"),
        ({"counts": [True, True, True]}, "counts must be integers .* but it is torch.bool"),
        ({"boxes": BOXES[:2]}, r"boxes must have shape \(T, 4\) with T = 3, but it has shape \(2, 4\)"),
        ({"boxes": [box[:3] for box in BOXES]}, r"boxes must have shape \(T, 4\)"),
        ({"boxes": [BOXES[0], [1, 1, 1, 3], BOXES[2]]}, r"x2 > x1 and y2 > y1, but boxes\[1\] is \[1.0, 1.0, 1.0, 3.0\]"),
        ({"boxes": [BOXES[0], BOXES[1], [0, 2, 1, 1]]}, r"boxes\[2\]"),
        ({"boxes": [[0, 0, 1, float("nan")], *BOXES[1:]]}, "boxes must be finite, but row 0"),
        ({"phi": [[1.0], [2.0]]}, r"phi must have shape \(T, d'\) with T = 3, but it has shape \(2, 1\)"),
        ({"phi": [1.0, 2.0, 3.0]}, r"phi must have shape .* but it has shape \(3,\)"),
        ({"phi": [[1.0], [float("inf")], [2.0]]}, "phi must be finite, but row 1"),
    ],
)
def test_bad_parts_are_refused_by_name(change, message):
    parts = {"features": torch.zeros(3, 1), "counts": [1, 2], "boxes": BOXES, "phi": torch.zeros(3, 2)} | change
    with pytest.raises(ValueError, match=message):
        Candidates(**parts)


def test_a_bad_number_far_down_a_long_set_is_found():
    features = torch.zeros(1000, 2)
    features[777, 1] = torch.nan
    with pytest.raises(ValueError, match="row 777"):
        check_finite("features", features, chunk=16)


@pytest.mark.parametrize("values", [[["a", "b"]], np.array([[object()]]), np.array([[1j]])])
def test_what_is_no_real_number_is_refused(values):
    with pytest.raises(TypeError, match="Expected real numbers but got an array of"):
        Candidates(values, [1])


@pytest.mark.parametrize(
    ("h", "message"),
    [
        ([0, 1], r"h\[1\] must lie in 0..0, the candidates of sample 1, but it is 1"),
        ([-1, 0], r"h\[0\] must lie in 0..1, the candidates of sample 0, but it is -1"),
        ([0], r"h must have shape \(2,\)"),
        ([[0, 0]], r"h must have shape \(2,\)"),
        ([0.0, float("nan")], "h must hold integers"),
        ([True, False], "h must hold integers"),
    ],
)
def test_latent_indices_that_are_none_are_refused(h, message):
    with pytest.raises(ValueError, match=message):
        random_candidates([2, 1]).select(h)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0], r"y must have shape \(2,\), one class per sample, but it has shape \(1,\)"),
        ([0, -1], r"class indices in 0..1, but y\[1\] is -1"),
        ([2, 0], r"class indices in 0..1, but y\[0\] is 2"),
        ([0.5, 0.0], "fractions"),
        ([float("nan"), 0.0], "fractions"),
    ],
)
def test_outputs_that_are_no_classes_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        random_candidates([2, 1]).outputs(y, 2)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([], "at least one sample"),
        ([False, False], "at least one sample"),
        ([0.5], "index must hold integers or be a mask, but it is torch.float64"),
        ([True], r"a mask must have shape \(2,\), one value per sample, but it has shape \(1,\)"),
    ],
)
def test_subsets_that_are_none_are_refused(index, message):
    with pytest.raises(ValueError, match=message):
        random_candidates([2, 1]).subset(index)


def test_a_sample_that_is_not_there_is_an_index_error():
    with pytest.raises(IndexError):
        random_candidates([2, 1]).subset([2])


def test_concat_refuses_sets_that_do_not_fit():
    one, eye = with_phi([2]), torch.eye(2)
    with pytest.raises(ValueError, match="concat needs boxes in all of the sets or in none"):
        Candidates.concat([one, Candidates(one.features, [2], phi=one.phi)])
    with pytest.raises(ValueError, match="concat needs phi in all of the sets or in none"):
        Candidates.concat([one, Candidates(one.features, [2], one.boxes)])
    with pytest.raises(ValueError, match=r"concat needs features of one length, but got lengths \[2, 1\]"):
        Candidates.concat([Candidates(eye, [2]), Candidates(eye[:, :1], [2])])
    with pytest.raises(ValueError, match=r"concat needs phi of one length, but got lengths \[2, 1\]"):
        Candidates.concat([Candidates(eye, [2], phi=eye), Candidates(eye, [2], phi=eye[:, :1])])
    with pytest.raises(ValueError, match="at least one set"):
        Candidates.concat([])


# ---- the prior of h ----------------------------------------------------------------------------------------------


def with_weights(counts, columns=0, seed=0):
    c = with_phi(counts, seed)
    shape = (c.n_candidates, columns) if columns else (c.n_candidates,)
    return c.with_prior(torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))


@pytest.mark.parametrize("columns", [0, 3])
def test_the_prior_goes_with_its_candidates(columns, tmp_path):
    c = with_weights([2, 3, 1], columns)
    assert torch.equal(c.subset([2, 0]).prior, c.prior[[5, 0, 1]])
    assert torch.equal(c.select([1, 2, 0]).prior, c.prior[[1, 4, 5]])
    assert torch.equal(c.part(1, 3).prior, c.prior[2:])
    for same in (c.to("cpu"), c.detach(), c.for_phi()):
        assert torch.equal(same.prior.cpu(), c.prior.cpu())
    assert_same(Candidates.concat([c.subset([0]), c.subset([1, 2])]), c)
    c.save(tmp_path / "set.npz")
    for mmap in (False, True):
        assert_same(Candidates.load(tmp_path / "set.npz", mmap=mmap), c.to("cpu"))
    assert "prior" in repr(c)
    assert ("3 classes" in repr(c)) == (columns == 3)
    assert c.with_prior(None).prior is None


def test_a_user_writes_the_prior_with_numpy_alone(tmp_path):
    np.savez(tmp_path / "own.npz", features=np.eye(2), counts=[2], prior=[0.0, 2.0])
    assert Candidates.load(tmp_path / "own.npz").prior.tolist() == [0.0, 2.0]


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (np.zeros(2), r"shape \(T,\) or \(T, K\) with T = 3, but it has shape \(2,\)"),
        (np.zeros((3, 2, 1)), "but it has shape"),
        (np.zeros((3, 0)), "but it has shape"),
        ([0.0, np.nan, 0.0], "prior must be finite, but row 1"),
        ([[0.0, 1.0], [0.0, 1.0], [0.0, -np.inf]], "prior must be finite, but row 2"),
    ],
)
def test_a_prior_of_another_shape_or_not_finite_is_refused(prior, message):
    with pytest.raises(ValueError, match=message):
        Candidates(np.eye(3), [2, 1], prior=prior)


def test_sets_with_and_without_a_prior_are_not_joined():
    c = with_weights([2, 1])
    for other in (c.with_prior(None), with_weights([2, 1], columns=2)):
        with pytest.raises(ValueError, match="concat needs prior"):
            Candidates.concat([c, other])


@given(shapes, st.integers(0, 3))
def test_log_prior_is_that_of_the_class_and_zero_at_its_peak(counts, columns):
    c = with_weights(counts, columns)
    y = torch.arange(len(c)) % max(columns, 1)
    found = c.log_prior(y)
    for i, rows in enumerate(torch.arange(c.n_candidates).split(counts)):
        own = c.prior[rows, y[i]] if columns else c.prior[rows]
        torch.testing.assert_close(found[rows], own - own.max())


def test_a_class_without_a_column_is_refused():
    with pytest.raises(ValueError, match="one column for each of 3 classes, but it has 2 columns"):
        with_weights([2, 1], columns=2).log_prior(torch.tensor([0, 2]))
