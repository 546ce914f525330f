import pytest
import torch
from references import random_problem
from torch.autograd import gradcheck

from lvmdc import Candidates, ClassBlocks, JointFeatureMap
from lvmdc import feature_maps as joint
from lvmdc.distributions import LinearPrediction, LogLinear, Uniform
from lvmdc.feature_maps import product
from lvmdc.inference import best
from lvmdc.segments import segment_softmax, segment_sum
from lvmdc.storage import mapped
from lvmdc.testing import random_candidates

PRECISIONS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def random_table(n_classes, d, dtype=torch.float64):
    return torch.randn(n_classes, d, generator=torch.Generator().manual_seed(7), dtype=torch.float64).to(dtype)


@pytest.fixture
def tiny_chunks(monkeypatch):
    monkeypatch.setattr(mapped, "CHUNK_NUMBERS", 7)  # two rows of three numbers


@pytest.mark.usefixtures("tiny_chunks")
@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("n_classes", [1, 3])
def test_scores_are_products_with_the_block_of_the_class(dtype, n_classes):
    c = random_candidates([3, 1, 5], dtype=dtype)
    table = random_table(n_classes, 3)
    scores = ClassBlocks(n_classes).scores(c, table.flatten())
    expected = [[sum(a * b for a, b in zip(x, w, strict=True)) for w in table.tolist()] for x in c.features.tolist()]
    assert scores.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert torch.allclose(scores.double(), torch.tensor(expected, dtype=torch.float64), rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("tiny_chunks")
@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("y", [[0, 1, 2], [0, 2, 0]], ids=["in runs", "mixed"])
def test_precise_scores_are_exact_whatever_the_features_are_in(dtype, y):
    c, w = random_candidates([3, 1, 5], dtype=dtype), random_table(3, 3).flatten()
    blocks = ClassBlocks(3).precise()
    exact = c.features.double() @ w.reshape(3, 3).T
    assert torch.allclose(blocks.scores(c, w), exact, rtol=1e-14, atol=1e-14)
    own = exact.gather(1, torch.tensor(y)[c.sample, None])[:, 0]
    assert torch.allclose(blocks.own_scores(c, w, torch.tensor(y)), own, rtol=1e-14, atol=1e-14)
    assert blocks.scores_at_origin(c).dtype == torch.float64
    assert ClassBlocks(3).scores(c, w).dtype == torch.promote_types(dtype, torch.float32)  # as it was


@pytest.mark.usefixtures("tiny_chunks")
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
@pytest.mark.parametrize(
    "y",
    [[0, 0, 0, 1, 1, 2, 2, 2], [2, 2, 0, 0, 0, 0, 1, 1], [0, 1, 0, 1, 2, 0, 1, 0], [1] * 8],
    ids=["sorted", "grouped", "mixed", "one class"],
)
def test_scores_of_ones_own_class_are_a_column_of_all(y, dtype):
    c, y = random_candidates([3, 1, 5, 2, 1, 1, 4, 2], dtype=dtype), torch.tensor(y)
    w = random_table(3, 3).flatten().requires_grad_()
    own, every = ClassBlocks(3).own_scores(c, w, y), ClassBlocks(3).scores(c, w)
    expected = torch.stack([every[row, y[c.sample[row]]] for row in range(c.n_candidates)])
    assert torch.allclose(own, expected)
    weight = torch.arange(c.n_candidates, dtype=own.dtype)
    one, two = (torch.autograd.grad((v * weight).sum(), w)[0] for v in (own, expected))
    assert torch.allclose(one, two, atol=1e-5)
    assert torch.allclose(ClassBlocks(3).own_transpose(c, weight, y), two.double(), atol=1e-5)


@pytest.mark.usefixtures("tiny_chunks")
@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_sum_adds_the_chosen_features_in_their_blocks(dtype, weighted):
    c = random_candidates([3, 1, 5], dtype=dtype)
    y, rows = torch.tensor([0, 2, 2, 0, 1]), torch.tensor([8, 0, 0, 4, 3])
    weight = torch.tensor([1.0, 0.5, -2.0, 3.0, 0.0]) if weighted else None
    blocks = [[0.0] * 3 for _ in range(3)]
    for j in range(5):
        for k in range(3):
            blocks[y[j]][k] += (float(weight[j]) if weighted else 1.0) * float(c.features[rows[j], k])
    total = ClassBlocks(3).sum(c, y, rows, weight)
    assert total.dtype == torch.float64
    assert torch.allclose(total, torch.tensor(blocks, dtype=torch.float64).flatten())


def test_scores_and_sum_are_two_views_of_one_map(problem):
    """w·ΣΨ is the sum of the scores, for class blocks as for any map."""
    c, blocks = problem.candidates, ClassBlocks(3)
    w = random_table(3, 3).flatten()
    y, rows = best(c, problem.scores)
    assert torch.allclose(w @ blocks.sum(c, y, rows), blocks.scores(c, w)[rows, y].sum())
    assert blocks.size(c) == 9
    assert bool(blocks.has(c, problem.y).all())


@pytest.mark.usefixtures("tiny_chunks")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_derivative_through_half_precision_features_is_that_of_widened_ones(dtype):
    features = random_candidates([9], dtype=dtype).features
    weight = torch.randn(9, 2, generator=torch.Generator().manual_seed(1))
    grads = []
    for x in (features, features.float()):
        table = random_table(2, 3, torch.float32).requires_grad_()
        (product(x, table).square() * weight).sum().backward()
        grads.append(table.grad)
    assert torch.allclose(*grads, rtol=1e-4, atol=1e-5)


def test_no_widened_copy_of_all_half_precision_features_is_made(monkeypatch):
    monkeypatch.setattr(mapped, "CHUNK_NUMBERS", 300)
    seen = []
    split = mapped.row_chunks
    monkeypatch.setattr(joint, "row_chunks", lambda features: (seen.append(part.numel()) or part for part in split(features)))
    product(torch.ones(1000, 3, dtype=torch.float16), torch.ones(2, 3, requires_grad=True)).sum().backward()
    assert max(seen) <= 300
    assert sum(seen) == 2 * 3000


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_features_that_are_learned_get_their_derivative_in_float32_at_least(dtype):
    features = torch.ones(2, 3, dtype=dtype, requires_grad=True)
    scores = product(features, torch.full((1, 3), 1 / 3))
    scores.sum().backward()
    assert scores.dtype == torch.float32
    assert torch.allclose(features.grad.float(), torch.full((2, 3), 1 / 3), atol=1e-3)


@pytest.mark.parametrize("y", [[3, 0, 0, 0], [0, 3, 0, 3]])
def test_a_class_without_a_block_is_an_error(problem, y):
    with pytest.raises((IndexError, RuntimeError), match="out of bounds"):
        ClassBlocks(3).own_scores(problem.candidates, torch.zeros(9, dtype=torch.float64), torch.tensor(y))


# ---- a custom map -----------------------------------------------------------------------------------------------


class SharedWithoutCorner(JointFeatureMap):
    """One weight vector for all classes and a bias for each of three; class 2 has no candidate of odd index."""

    def scores(self, candidates, w):
        scores = product(candidates.features, w[None, :-3]) + w[-3:]
        odd = candidates.index(torch.arange(candidates.n_candidates)) % 2 == 1
        return scores.masked_fill(odd[:, None] & (torch.arange(3) == 2), -torch.inf)

    def sum(self, candidates, y, rows, weight=None):
        weight = torch.ones(len(rows), dtype=torch.float64) if weight is None else weight.double()
        bias = torch.zeros(3, dtype=torch.float64).index_add(0, y, weight)
        return torch.cat([weight @ candidates.features[rows].double(), bias])


@pytest.fixture
def latent_sets():
    problem = random_problem(counts=(3, 1, 4, 2))
    return problem.candidates, torch.tensor([2, 2, 0, 2]), torch.tensor([1.0, -2.0, 0.5, 0.0, 0.0, 9.0], dtype=torch.float64)


def test_a_map_of_ones_own_has_size_own_scores_and_candidates_of_each_class(latent_sets):
    c, y, w = latent_sets
    shared = SharedWithoutCorner()
    assert shared.size(c) == 6
    assert shared.has(c, y).tolist() == [True, False, True, True, True, True, True, True, True, False]
    own = shared.own_scores(c, w, y)
    assert torch.equal(own, shared.scores(c, w)[torch.arange(10), y[c.sample]])
    weight = torch.where(own > -torch.inf, torch.arange(10.0, dtype=torch.float64), 0.0)
    assert float(shared.own_transpose(c, weight, y) @ w) == pytest.approx(float((own.nan_to_num(neginf=0) * weight).sum()))


def test_prediction_by_a_map_of_ones_own_never_takes_what_the_class_does_not_have(latent_sets):
    c, _, w = latent_sets
    y, h = LinearPrediction(w, SharedWithoutCorner()).predict(c)
    assert y.tolist() == [2, 2, 2, 2]  # by its bias
    assert (h % 2 == 0).all()


def test_posterior_by_a_map_of_ones_own_gives_no_mass_to_what_the_class_does_not_have(latent_sets):
    c, y, w = latent_sets
    shared = SharedWithoutCorner()
    for model in (LogLinear(w, shared), Uniform(shared)):
        p = model(c, y).p
        assert torch.equal(p > 0, shared.has(c, y))
        assert torch.allclose(segment_sum(p, c.counts), torch.ones(4, dtype=p.dtype))
    assert Uniform(shared)(c, y).p.tolist() == pytest.approx([0.5, 0, 0.5, 1, 0.25, 0.25, 0.25, 0.25, 1, 0])


def test_derivative_beside_candidates_that_the_class_does_not_have_is_that_of_differences(latent_sets):
    c, y, w = latent_sets

    assert gradcheck(lambda theta: segment_softmax(SharedWithoutCorner().own_scores(c, theta, y), c.counts), w.clone().requires_grad_())


@pytest.mark.parametrize("chunk", [3, 7, 1 << 20])
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_mixtures_of_class_blocks_are_those_of_any_map(monkeypatch, dtype, chunk):
    monkeypatch.setattr(mapped, "CHUNK_NUMBERS", chunk)
    c, y = random_candidates([3, 1, 5, 2], dtype=dtype), torch.tensor([1, 0, 2, 0])
    weights = segment_softmax(torch.arange(11.0).double(), c.counts)
    weights[[0, 1, 5]] = 0.0  # candidates that a class lacks, or that are known not to be
    psi = ClassBlocks(3)
    one, two = psi.mixtures(c, y, weights), JointFeatureMap.mixtures(psi, c, y, weights)
    assert one[0].dtype == two[0].dtype
    assert torch.allclose(one[0], two[0], rtol=1e-6, atol=1e-6)
    assert torch.equal(one[1], two[1])


def test_a_mixture_of_very_many_candidates_keeps_its_digits():
    many = 1_000_000
    c = Candidates(torch.ones(many, 1), [many])
    mixed, _ = ClassBlocks(1).mixtures(c, torch.tensor([0]), torch.full((many,), 1 / many, dtype=torch.float64))
    assert float(mixed) == pytest.approx(1.0, abs=1e-5)
