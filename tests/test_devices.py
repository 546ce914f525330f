"""The simulated accelerator of `--device standin`: it refuses what CUDA refuses, and a part of the tests runs on it."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from chains.brute import random_chains
from learners.problems import problem

from lvmdc import DISC, EM, ILSVM, LSVM, M3E, OverlapLoss, SoftDISC, Supervised, ZeroOneLoss, segments
from lvmdc.chains import ChainDISC, ChainDistribution, ChainLSVM, ChainScores
from lvmdc.distributions import Conditional, draw

TESTS = Path(__file__).parent
FEW = ["test_devices.py", "test_segments.py", "test_objective.py", "solvers/test_dual_gap.py"]


@pytest.mark.slow
def test_a_part_of_the_tests_passes_on_the_simulated_accelerator(device):
    if device.type != "cpu":
        pytest.skip("this run is on a device itself")
    files = [str(TESTS / name) for name in FEW]
    words = ["-q", "--device", "standin", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist", *files]
    ended = subprocess.run([sys.executable, "-m", "pytest", *words], capture_output=True, text=True, cwd=TESTS.parent, timeout=1800)
    assert ended.returncode == 0, ended.stdout[-3000:]


def test_tensors_of_two_devices_do_not_mix(device):
    if device.type == "cpu":
        pytest.skip("there is one device")
    here, there = torch.ones(3), torch.ones(3, device="cpu")
    assert (here.device.type, there.device.type) == (device.type, "cpu")
    with pytest.raises(RuntimeError, match=r"(?i)expected all tensors"):
        here + there
    with pytest.raises(RuntimeError, match=r"(?i)expected all tensors"):
        segments.segment_sum(here, torch.tensor([2, 1], device="cpu"))
    with pytest.raises(RuntimeError):
        there[torch.tensor([0, 2])]
    with pytest.raises(RuntimeError, match=r"(?i)generator"):
        torch.rand(3, generator=torch.Generator(), device=device)
    assert here.to("cpu").tolist() == there.tolist()


def test_the_package_makes_its_tensors_where_its_data_are(device):
    counts = torch.tensor([2, 1])
    assert segments.segment_ids(counts).device.type == device.type
    assert segments.segment_argmax(torch.tensor([0.0, 1.0, 0.0]), counts).tolist() == [1, 2]


# ---- results are those of the CPU ---------------------------------------------------------------------------------


LEARNERS = {
    "LSVM": LSVM(OverlapLoss(), C=3.0),
    "LSVM by one slack": LSVM(OverlapLoss(), C=3.0, solver="one_slack"),
    "ILSVM": ILSVM(OverlapLoss(), C=3.0),
    "Supervised": Supervised(OverlapLoss(), C=3.0),
    "DISC": DISC(OverlapLoss(), C=3.0, J=0.1),
    "DISC by Algorithm 2": DISC(ZeroOneLoss(), C=3.0, J=0.1, theta_solver="ssd"),
    "SoftDISC": SoftDISC(OverlapLoss(), C=3.0, J=0.1),
    "EM": EM(OverlapLoss(), C=3.0),
    "M3E": M3E(OverlapLoss(), C=3.0),
}
CHAINS = {"ChainLSVM": ChainLSVM(2, C=3.0), "ChainDISC": ChainDISC(2, C=3.0, init="random")}
each = pytest.mark.parametrize("name", [*LEARNERS, *CHAINS])


def samples(name):
    """A learner that has not learned, samples on the CPU, their y, and h where it is to be known."""
    if name in CHAINS:
        chains, y = random_chains(n=8, m=4)
        return CHAINS[name].clone(), chains.to("cpu"), y.cpu(), None
    p = problem(1, n=12)
    learner = LEARNERS[name].clone()
    return learner, p.candidates.to("cpu"), p.y.cpu(), p.h.cpu() if learner.uses_known_h else None


@each
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_learner_finds_what_it_finds_on_the_cpu(name, device):
    learner, c, y, h = samples(name)
    there = learner.clone().fit(c.to(device), y.to(device), *(() if h is None else (h.to(device),)))
    here = learner.fit(c, y, *(() if h is None else (h,)))
    assert there.objective_ == pytest.approx(here.objective_, rel=1e-4)  # within the tolerance that it learns to
    assert there.coef_.device.type == device.type
    for one, two in zip(there.predict(c.to(device)), here.predict(c), strict=True):
        assert one.device.type == device.type
        assert torch.equal(one.cpu(), two)


@each
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_was_learned_on_a_device_serves_on_another(name, device):
    learner, c, y, h = samples(name)
    learner.fit(c.to(device), y.to(device), *(() if h is None else (h.to(device),)))
    p = learner.predict_latent_proba(c, y)
    assert p.device.type == "cpu"
    torch.testing.assert_close(learner.predict_latent_proba(c.to(device), y.to(device)).cpu(), p)
    assert torch.equal(learner.predict(c)[0], learner.predict(c.to(device))[0].cpu())
    assert learner.coef_.device.type == device.type


@each
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_state_from_a_file_goes_on_where_the_samples_are(name, device, tmp_path):
    learner, c, y, h = samples(name)
    where = [c.to(device), y.to(device), None if h is None else h.to(device)]
    learner.set_params(tol=1e-6)
    learner.begin(*where)
    learner.step()
    torch.save(learner.state_dict(), tmp_path / "state.pt")
    again = learner.clone()
    again.begin(*where)
    again.load_state_dict(torch.load(tmp_path / "state.pt", map_location="cpu", weights_only=True))
    for one in (learner, again):
        one.step()
    assert again.objective_ == pytest.approx(learner.objective_, rel=1e-6)
    assert again.coef_.device.type == device.type


def test_a_seed_means_the_same_draws_on_every_device(device):
    p = problem(1, n=12)
    P = Conditional(p.candidates, p.y, torch.rand(p.candidates.n_candidates, generator=torch.Generator().manual_seed(0)))
    there = Conditional(P.candidates.to(device), P.y.to(device), P.p.to(device))
    here = Conditional(P.candidates.to("cpu"), P.y.cpu(), P.p.cpu())
    for seeded in (lambda: torch.Generator().manual_seed(3), lambda: torch.manual_seed(3) and None):
        assert torch.equal(draw(there, 5, seeded()).h.cpu(), draw(here, 5, seeded()).h)
    unary = torch.randn(4, 3, 2, generator=torch.Generator().manual_seed(1))
    chains = [ChainDistribution(ChainScores(unary.to(where))) for where in (device, "cpu")]
    assert torch.equal(*(P.sample(5, torch.Generator().manual_seed(3)).cpu() for P in chains))
