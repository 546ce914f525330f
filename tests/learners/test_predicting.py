import numpy as np
import pytest
import torch
from learners.problems import LOSSES, delta, problem

from lvmdc import DISC, ILSVM, LSVM, Candidates, OverlapLoss, Supervised

LEARNERS = [DISC, ILSVM, LSVM, Supervised]


def fitted(learner, p, **settings):
    return learner(C=5.0, **settings).fit(p.candidates, p.y, h=p.h if learner is Supervised else None)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_predictions_and_posteriors_have_their_shapes_and_ranges(learner, dtype):
    p = problem(0, n=12, most=5, dtype=dtype, signal=3)
    model = fitted(learner, p)
    y_hat, h_hat = model.predict(p.candidates)
    assert y_hat.shape == h_hat.shape == (12,)
    assert ((y_hat >= 0) & (y_hat < 3)).all()
    assert ((h_hat >= 0) & (h_hat < p.candidates.counts)).all()
    belief = model.predict_latent_proba(p.candidates, p.y)
    sums = torch.zeros(12, dtype=torch.float64).index_add(0, p.candidates.sample, belief.double())
    torch.testing.assert_close(sums, torch.ones(12, dtype=torch.float64), atol=1e-5, rtol=0)
    assert not belief.requires_grad
    assert model.coef_.dtype == torch.float64


def test_half_single_and_double_precision_agree():
    dtypes = (torch.float16, torch.float32, torch.float64)
    values = [fitted(DISC, problem(0, n=12, dtype=t, signal=6), init="uniform", tol=1e-5).objective_ for t in dtypes]
    assert values[0] == pytest.approx(values[2], rel=2e-2)
    assert values[1] == pytest.approx(values[2], abs=2 * 5.0 * 1e-5)  # each is within C·ε of the optimum


@pytest.mark.parametrize("learner", LEARNERS)
def test_numpy_arrays_and_lists_will_do(learner):
    p = problem(1, n=8)
    plain = Candidates(p.candidates.features.numpy(), p.candidates.counts.tolist(), p.candidates.boxes.numpy())
    model = learner(OverlapLoss(), C=np.float64(2.0)).fit(plain, p.y.numpy(), h=p.h.numpy() if learner is Supervised else None)
    assert 0 <= model.score(plain, p.y.tolist(), p.h.numpy()) <= 1
    integer = learner(C=np.int64(2)).fit(plain, p.y.numpy(), h=p.h.tolist() if learner is Supervised else None)
    assert integer.C == 2


@pytest.mark.parametrize("name", list(LOSSES))
def test_the_score_is_one_less_the_mean_loss(name):
    p = problem(2, n=10, most=5)
    model = fitted(LSVM, p, loss=LOSSES[name])
    y_hat, h_hat = model.predict(p.candidates)
    boxes, losses = p.candidates.boxes.double().numpy(), []
    for i in range(10):
        here = boxes[p.of(i).start : p.of(i).stop]
        losses.append(delta(name, here, int(p.y[i]), int(p.h[i]), int(y_hat[i]), int(h_hat[i])))
    assert model.score(p.candidates, p.y, p.h) == pytest.approx(1 - np.mean(losses), abs=1e-6)
    assert model.score(p.candidates, p.y) == pytest.approx(float((y_hat == p.y).double().mean()))


def test_phi_has_features_of_its_own():
    p = problem(3, n=10, most=5, phi=2, signal=3)
    model = fitted(DISC, p)
    assert model.coef_.shape == (3, 4)
    assert model.theta_.shape == (3, 2)
    without = Candidates(p.candidates.features, p.candidates.counts)
    assert model.predict(without)[0].shape == (10,)
    with pytest.raises(ValueError, match="candidates must give Φ the 6 numbers that θ has from fit, but they give 12"):
        model.predict_latent_proba(without, p.y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_module_may_stand_for_the_posterior(dtype):
    p = problem(4, n=12, most=5, phi=3, signal=3)
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).to(dtype)
    model = DISC(OverlapLoss(), C=20.0, J=0.01, conditional=module).fit(p.candidates, p.y)
    assert model.theta_.shape == (3 * 8 + 8 + 8 * 3 + 3,)
    assert model.history_[-1]["theta_norm"] == pytest.approx(0.005 * float(model.theta_.double().square().sum()), rel=1e-5)
    assert any(row["posterior_decrease"] > 0 for row in model.history_)
    assert model.predict_latent_proba(p.candidates, p.y).double().sum().item() == pytest.approx(12, abs=1e-5)


def test_a_uniform_posterior_learns_nothing_of_h():
    p = problem(4, n=12, most=5, signal=3)
    model = fitted(DISC, p, conditional="uniform")
    assert model.theta_.numel() == 0
    expected = (1 / p.candidates.counts)[p.candidates.sample]
    torch.testing.assert_close(model.predict_latent_proba(p.candidates, p.y).float(), expected)


def test_the_posterior_learns_the_telling_candidate():
    p = problem(5, n=40, d=6, most=5, signal=4)
    model = DISC(C=100.0, seed=1).fit(p.candidates, p.y)
    belief = model.predict_latent_proba(p.candidates, p.y)[p.candidates.offsets + p.h]
    assert float(belief.mean()) > float((1 / p.candidates.counts).mean()) + 0.1


def test_other_samples_are_predicted_one_by_one_as_together():
    p = problem(6, n=10, most=5, signal=3)
    model = fitted(DISC, p)
    together = model.predict(p.candidates)
    for i in range(10):
        alone = model.predict(p.candidates.subset([i]))
        assert (int(alone[0]), int(alone[1])) == (int(together[0][i]), int(together[1][i]))
