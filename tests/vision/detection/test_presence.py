import pytest
import torch

from lvmdc import Candidates
from lvmdc.vision.detection import PresenceMap


@pytest.fixture
def problem():
    g = torch.Generator().manual_seed(0)
    return Candidates(torch.randn(9, 4, generator=g), [3, 1, 5]), torch.randn(5, generator=g, dtype=torch.float64)


def psi(candidates, y, row, bias):
    """Ψ from its definition."""
    return torch.cat([candidates.features[row].double(), torch.tensor([bias], dtype=torch.float64)]) * y


def test_scores_are_w_dot_psi_and_absence_has_one_candidate(problem):
    candidates, w = problem
    scores = PresenceMap(2.0).scores(candidates, w)
    for row in range(9):
        assert float(scores[row, 1]) == pytest.approx(float(w @ psi(candidates, 1, row, 2.0)), abs=1e-5)
        assert float(scores[row, 0]) == (0.0 if row in (0, 3, 4) else -torch.inf)


def test_sums_vectors_mixtures_and_transposes_add_psi_up(problem):
    candidates, w = problem
    joint, y = PresenceMap(2.0), torch.tensor([1, 0, 1])
    rows, labels, weight = torch.tensor([8, 0, 3]), torch.tensor([1, 0, 1]), torch.tensor([0.5, 2.0, -1.0], dtype=torch.float64)
    each = torch.stack([psi(candidates, int(k), int(r), 2.0) for k, r in zip(labels, rows, strict=True)])
    assert torch.allclose(joint.sum(candidates, labels, rows, weight), weight @ each)
    vectors, blocks = joint.vectors(candidates, labels, rows)
    assert torch.allclose(vectors.double(), each)
    assert blocks.tolist() == [0, 0, 0]
    share = torch.tensor([0.2, 0.8, 0, 1.0, 0.25, 0.25, 0.25, 0.25, 0], dtype=torch.float64)
    mixed, _ = joint.mixtures(candidates, y, share)
    for i in range(3):
        own = [share[r] * psi(candidates, int(y[i]), r, 2.0) for r in range(9) if candidates.sample[r] == i]
        assert torch.allclose(mixed[i].double(), sum(own), atol=1e-6)
    own = joint.own_scores(candidates, w, y)
    assert torch.equal(own, joint.scores(candidates, w).gather(1, y[candidates.sample, None])[:, 0])
    assert torch.allclose(joint.own_transpose(candidates, share, y), mixed.double().sum(0), atol=1e-5)
    assert joint.size(candidates) == 5


def test_scores_of_many_classes_are_those_of_each(problem):
    candidates, w = problem
    both = PresenceMap().present_scores(candidates, torch.stack([w, -w]))
    assert torch.allclose(both[:, 0], -both[:, 1])
    assert torch.allclose(both[:, 0], PresenceMap().scores(candidates, w)[:, 1])


def test_a_bias_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match="bias must be positive, but it is 0"):
        PresenceMap(0)
