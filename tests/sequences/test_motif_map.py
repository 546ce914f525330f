"""Ψ of motif finding against counts that are taken letter by letter."""

import numpy as np
import pytest
import torch

from lvmdc import LSVM, Candidates, LabelLoss
from lvmdc.sequences import MotifMap
from lvmdc.sequences.motif_map import as_letters

WORDS = ["ACGTACGGTCAT", "TTTTACGAAC", "GATTACAGATTACA"]


def counted(sequence: str, start: int | None, width: int, order: int) -> np.ndarray:
    """Ψ(x, y, h) as section 5.1 writes it, background of the whole sequence and all; `start` is None for a sequence without a motif."""
    psi = np.zeros(4 * width + 4 ** (order + 1))
    for i, letter in enumerate(sequence):
        if start is not None and start <= i < start + width:
            psi[4 * (i - start) + "ACGT".index(letter)] += 1
        elif i >= order:
            number = sum(4**m * "ACGT".index(sequence[i - m]) for m in range(order + 1))
            psi[4 * width + number] += 1
    return psi


def candidates(psi: MotifMap) -> Candidates:
    return Candidates(psi.codes(WORDS), [len(x) - psi.width + 1 for x in WORDS])


@pytest.mark.parametrize(("width", "order"), [(3, 0), (4, 1), (5, 2), (10, 3), (2, 4)])
def test_scores_and_vectors_are_those_of_direct_counts(width, order):
    psi = MotifMap(width, order)
    c = candidates(psi)
    length = 4 * width + 4 ** (order + 1)
    w = torch.randn(length, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scores = psi.scores(c, w)
    assert psi.size(c) == length
    row = 0
    for word in WORDS:
        none = counted(word, None, width, order)
        for start in range(len(word) - width + 1):
            difference = counted(word, start, width, order) - none
            vector, block = psi.vectors(c, torch.tensor([1, 0]), torch.tensor([row, row]))
            assert np.array_equal(vector[0].numpy(), difference)
            assert not vector[1].any()
            assert block.tolist() == [0, 0]
            assert float(scores[row, 1]) == pytest.approx(difference @ w.numpy(), rel=1e-4, abs=1e-4)
            assert float(scores[row, 0]) == (0.0 if start == 0 else -np.inf)
            row += 1


def test_sums_and_mixtures_add_the_vectors_up():
    psi = MotifMap(4, 2)
    c = candidates(psi)
    y, rows = torch.tensor([1, 0, 1, 1]), torch.tensor([3, 0, 11, 11])
    weight = torch.tensor([0.5, 2.0, 1.0, 0.25], dtype=torch.float64)
    vectors, _ = psi.vectors(c, y, rows)
    assert torch.allclose(psi.sum(c, y, rows, weight), weight @ vectors.double())
    assert torch.allclose(psi.sum(c, y, rows), vectors.double().sum(dim=0))
    weights = torch.rand(c.n_candidates, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    labels = torch.tensor([1, 0, 1])
    mixed, _ = psi.mixtures(c, labels, weights)
    slow, _ = super(MotifMap, psi).mixtures(c, labels, weights)
    assert torch.allclose(mixed, slow, atol=1e-5)


def test_gradient_of_the_scores_is_the_vector():
    psi = MotifMap(4, 1)
    c = candidates(psi)
    w = torch.zeros(psi.size(c), dtype=torch.float64, requires_grad=True)
    psi.scores(c, w)[5, 1].backward()
    assert torch.equal(w.grad.float(), psi.vectors(c, torch.tensor([1]), torch.tensor([5]))[0][0])


def test_objective_is_that_of_the_full_counts():
    """What was left out of Ψ changes nothing: both classes, background and all, as dense features of a custom map."""

    class Full(MotifMap):
        def codes(self, sequences):
            rows = [counted(x, h, self.width, self.order) for x in sequences for h in range(len(x) - self.width + 1)]
            nones = [counted(x, None, self.width, self.order) for x in sequences for h in range(len(x) - self.width + 1)]
            return torch.tensor(np.concatenate([rows, nones], axis=1))

        def scores(self, candidates, w):
            with_motif, without = candidates.features.double().chunk(2, dim=1)
            none = torch.full((candidates.n_candidates,), -torch.inf, dtype=torch.float64)
            none[candidates.offsets] = (without @ w.double())[candidates.offsets]
            return torch.stack([none, with_motif @ w.double()], dim=1)

        def vectors(self, candidates, y, rows):
            with_motif, without = candidates.features[rows].chunk(2, dim=1)
            return torch.where(y[:, None] == 1, with_motif, without), torch.zeros_like(rows)

        def sum(self, candidates, y, rows, weight=None):
            vectors = self.vectors(candidates, y, rows)[0].double()
            return vectors.sum(dim=0) if weight is None else weight.double() @ vectors

    y, h = [1, 0, 1], [2, 0, 3]
    found = []
    for kind in (MotifMap, Full):
        psi = kind(4, 1)
        model = LSVM(LabelLoss(), C=5.0, tol=1e-4, init="given", joint=psi, n_classes=2, max_iter=200)
        found.append(model.fit(candidates(psi), y, h_init=h).objective_)
    assert found[0] == pytest.approx(found[1], rel=1e-3)
    assert found[0] < 4.9  # something was learned


def test_letters_of_either_case_are_read_and_others_refused():
    assert as_letters("AaCcGgTt").tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    with pytest.raises(ValueError, match="letter 3 is 'N'"):
        as_letters("ACN")
    with pytest.raises(ValueError, match="letter 2 is 'é'"):
        as_letters("Aé")
    with pytest.raises(ValueError, match="at least width = 10 letters, but one has 3"):
        MotifMap().codes(["ACG"])
    with pytest.raises(ValueError, match=r"order must lie in 0\.\.4"):
        MotifMap(order=5)


def test_likeliest_scale_of_the_weights_is_found():
    psi, true = MotifMap(3, 0), torch.tensor([[0.7, 0.1, 0.1, 0.1], [0.4, 0.3, 0.2, 0.1], [0.25, 0.25, 0.25, 0.25]])
    w = torch.cat([0.01 * true.log().flatten(), torch.zeros(4)])  # right but for a factor of a hundred
    assert torch.allclose(psi.letter_probabilities(w, true), true, atol=0.01)
