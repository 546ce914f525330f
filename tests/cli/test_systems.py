"""Every solver of (14), kind of CCCP, kernel map, norm and network trains by its configuration, on a few embedded images."""

import copy

import pytest
import torch

from lvmdc.cli.evaluate import evaluate_checkpoint
from lvmdc.cli.train import train
from lvmdc.distributions import NeuralConditional, NeuralPrediction
from lvmdc.lightning import AlternatingModule
from lvmdc.lightning.checkpoint import read_checkpoint
from lvmdc.lightning.networks import mlp

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning:pytorch_lightning", "ignore:.*does not have many workers.*", "ignore::lvmdc.learners.ConvergenceWarning"
)
QUICK = ["experiment=minimal", "loss=overlap", "logger=csv", "extras.report=false", "method.tol=0.1", "method.init=central"]
NETWORKS = ["module=alternating", "prediction=mlp", "conditional=mlp", "prediction.hidden=[8]", "conditional.hidden=[6,4]"]
SPARSE = ["module=sparse", "data.batch_size=4", "trainer.max_epochs=60"]
SYSTEMS = {
    "one_slack": ["method.solver=one_slack"],
    "eager": ["method=ilsvm", "method.cccp=eager"],
    "self_paced": ["method.cccp=self_paced"],
    "chi2": ["kernel_map=chi2"],
    "fourier": ["kernel_map=fourier", "kernel_map.n_components=50"],
    "nystroem": ["kernel_map=nystroem", "kernel_map.n_components=50"],
    "l1": [*SPARSE, "module.norm=l1", "method.C=1000"],
    "group": [*SPARSE, "module.norm=group", "method.C=100"],
    "mlp": [*NETWORKS, "method.C=100", "trainer.max_epochs=10"],
}


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_it_trains_by_its_configuration(system, config, small, tmp_path):
    cfg = config("train", *small, *QUICK, *SYSTEMS[system], f"paths.output_dir={tmp_path}", f"paths.log_dir={tmp_path}")
    measures = train(cfg)
    assert 0 <= measures["test/loss"] <= 1
    learned = torch.load(tmp_path / "checkpoints" / "last.ckpt", weights_only=True)["lvmdc"]["learned"]
    rows = learned["history"]
    assert rows[-1]["objective"] < rows[0]["objective"] + rows[0]["decrease"]  # lower than at w = 0
    if system in ("l1", "group"):
        zeros = learned["coef"] == 0
        assert 0 < float(zeros.double().mean()) < 1
    if system == "mlp":
        checkpoint = tmp_path / "checkpoints" / "last.ckpt"
        model = read_checkpoint(checkpoint).model()
        assert isinstance(model.p_w, NeuralPrediction)
        assert isinstance(model.p_theta, NeuralConditional)
        assert [m.out_features for m in model.p_w.modules() if isinstance(m, torch.nn.Linear)] == [8, 6]
        assert [m.out_features for m in model.p_theta.modules() if isinstance(m, torch.nn.Linear)] == [6, 4, 6]
        found = evaluate_checkpoint(config("eval", f"ckpt_path={checkpoint}", f"paths.output_dir={tmp_path}/eval"))
        assert found["loss"] == pytest.approx(measures["test/loss"])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["prediction=mlp"], "prediction= asks for a network, which module=alternating, soft, end_to_end can learn, but .* ExactModule"),
        (["conditional=mlp"], "conditional= asks for a network, which .*end_to_end, sparse can learn, but the module is ExactModule"),
        (["module=sparse", "prediction=mlp"], "prediction= asks for a network, .* but the module is SparseModule"),
        (["module=alternating", "method=lsvm", "conditional=mlp"], "conditional is the P_θ of DISC, but the learner is LSVM"),
        (["module=alternating", "prediction=mlp", "prediction.hidden=[]"], "hidden must name at least one layer"),
        (["module=alternating", "prediction=mlp", "prediction.dropout=1"], r"dropout must lie in \[0, 1\), but it is 1"),
    ],
)
def test_what_does_not_go_together_is_refused(overrides, message, config, small, tmp_path):
    with pytest.raises(ValueError, match=message):
        train(config("train", *small, *QUICK, *overrides, f"paths.output_dir={tmp_path}", f"paths.log_dir={tmp_path}"))


def test_an_mlp_scores_each_candidate_by_its_features_alone_whatever_their_length():
    torch.manual_seed(0)
    network, x = mlp(5, 3, hidden=[7, 4], dropout=0.5).eval(), torch.randn(6, 5)
    torch.testing.assert_close(network(x)[2:3], network(x[2:3]))
    torch.testing.assert_close(network(100 * x), network(x), rtol=1e-3, atol=1e-4)
    weights = [layer for layer in network if isinstance(layer, torch.nn.Linear)]
    by_hand = (x - x.mean(dim=1, keepdim=True)) / (x.var(dim=1, correction=0, keepdim=True) + 1e-5).sqrt()
    for layer in weights[:-1]:
        by_hand = (by_hand @ layer.weight.T + layer.bias).clamp(min=0)
    torch.testing.assert_close(network(x), by_hand @ weights[-1].weight.T + weights[-1].bias)


def test_the_same_seed_makes_the_same_network_and_a_module_is_taken_as_it_is():
    from lvmdc import DISC

    made = []
    for seed in (0, 0, 1):
        module = AlternatingModule(DISC(seed=seed), prediction=mlp, conditional=mlp)
        torch.rand(3)  # whatever happened before
        module._make_networks(5, 4, 3)
        made.append(copy.deepcopy(module._networks))
    assert torch.equal(made[0][0][1].weight, made[1][0][1].weight)
    assert not torch.equal(made[0][0][1].weight, made[2][0][1].weight)
    assert made[0][1][1].weight.shape == (64, 4)
    given = mlp(5, 3)
    module = AlternatingModule(DISC(), prediction=given)
    module._make_networks(5, 4, 3)
    assert module._networks[0] is given
