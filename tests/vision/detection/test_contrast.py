import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from lvmdc import DISC, LSVM, Candidates
from lvmdc.vision.detection import Contrast, Detector


@pytest.fixture
def problem():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(40, 3, generator=g, dtype=torch.float64) @ torch.randn(3, 3, generator=g, dtype=torch.float64)
    x[::5, 0] += 2.0
    return Candidates(x, [5] * 8, torch.tensor([[0.0, 0, 2, 2]]).repeat(40, 1)), torch.tensor([1, 1, 1, -1, -1, -1, -1, 0])


def test_the_direction_is_that_of_linear_discriminant_analysis(problem):
    candidates, column = problem
    x = candidates.features.numpy()
    covariance = np.cov(x.T, bias=True)
    shrunk = 0.9 * covariance + 0.1 * np.trace(covariance) / 3 * np.eye(3)
    means = [x[np.repeat(column.numpy() == value, 5)].mean(axis=0) for value in (1, -1)]
    assert Contrast(candidates).direction(column).numpy() == pytest.approx(np.linalg.solve(shrunk, means[0] - means[1]))


def test_it_points_as_scikit_learns_does_where_the_classes_share_a_covariance():
    g = torch.Generator().manual_seed(1)
    x = torch.randn(4000, 3, generator=g, dtype=torch.float64)
    x[:2000, 0] += 0.1
    column = torch.tensor([1] * 2000 + [-1] * 2000)
    one = Contrast(Candidates(x, [1] * 4000)).direction(column).numpy()
    other = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1).fit(x.numpy(), column.numpy()).coef_[0]
    assert one @ other / np.linalg.norm(one) / np.linalg.norm(other) > 0.999


def test_every_image_starts_at_its_candidate_of_highest_score_and_large_images_count_no_more(problem):
    candidates, column = problem
    contrast = Contrast(candidates)
    scores = (candidates.features @ contrast.direction(column)).reshape(8, 5)
    assert torch.equal(contrast.candidates_of(column), scores.argmax(dim=1))
    doubled = Candidates(candidates.features[:5].repeat(2, 1), [10])
    ragged = Contrast(Candidates.concat([doubled, Candidates(candidates.features[5:], [5] * 7)]))
    ragged._factor = contrast._factor
    assert torch.allclose(ragged.direction(column), contrast.direction(column))


def test_constant_features_are_no_trouble():
    flat = Candidates(torch.ones(4, 2), [2, 2])
    assert bool(Contrast(flat).direction(torch.tensor([1, -1])).isfinite().all())


@pytest.mark.slow
@pytest.mark.parametrize("method", [DISC, LSVM])
def test_more_starts_never_end_above_the_one_by_contrast(method, problem):
    candidates, column = problem
    labels = column[:, None]
    one, more = (Detector(method(C=1.0, n_init=n)).fit(candidates, labels).learners_[0].objective_ for n in (1, 4))
    own = Detector(method(C=1.0, n_init=3), start="learner").fit(candidates, labels).learners_[0].objective_
    assert more == pytest.approx(min(one, own))
