"""Two ranks of torch.distributed must give the numbers of one process."""

from copy import deepcopy
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.distributed as dist
from learners.problems import Problem, problem, random_h, structural_svm
from processes import start_ranks

from lvmdc import DISC, EM, ILSVM, LSVM, Candidates, FunctionLoss, LabelLoss, OverlapLoss, Supervised, ZeroOneLoss
from lvmdc.distributed import divide, gather, highest, load_shard, mean, own, row_mean, shard, total
from lvmdc.learners.lsvm import BlockLearner
from lvmdc.storage.mapped import is_mapped


def by_row(y1, h1, y2, h2):
    """A loss that knows something of every candidate of the whole set."""
    return torch.where(y1 == y2, (h1.double().sin() - h2.double().sin()).abs() / 2, 1.0)


C, TOL = 5.0, 1e-6
GAP = C * TOL  # the objective that each training is asked for, up to this
CLOSE = 2 * (2 * GAP) ** 0.5  # (14) is strongly convex: two w within the gap of its optimum are no further apart
SETTINGS = {"C": C, "tol": TOL, "seed": 3, "solver": "one_slack", "init": "given"}
# θ follows any w within the gap, and L-BFGS may stop at another kink of the slack: here it meets the same w over any number of ranks.
STRICT = {"cccp": "inexact"}
CASES = {
    "LSVM": lambda **others: LSVM(LabelLoss(), **SETTINGS | others),
    "LSVM overlap": lambda **others: LSVM(OverlapLoss(), **SETTINGS | others),
    "LSVM by row": lambda **others: LSVM(FunctionLoss(by_row, latent="row"), **SETTINGS | others),
    "ILSVM": lambda **others: ILSVM(ZeroOneLoss(), **SETTINGS | others),
    "Supervised": lambda **others: Supervised(OverlapLoss(), **SETTINGS | others),
    "DISC": lambda **others: DISC(ZeroOneLoss(), J=0.01, **SETTINGS | STRICT | others),
    "DISC slack": lambda **others: DISC(OverlapLoss(), J=1.0, theta_bound="slack", **SETTINGS | STRICT | others),
    "DISC prior": lambda **others: DISC(OverlapLoss(), J=0.1, **SETTINGS | STRICT | others),
    "LSVM n-slack": lambda **others: LSVM(OverlapLoss(), **SETTINGS | {"solver": "n_slack"} | others),
    "LSVM eager": lambda **others: LSVM(LabelLoss(), **SETTINGS | {"solver": "n_slack", "cccp": "eager"} | others),
    "DISC n-slack": lambda **others: DISC(OverlapLoss(), J=1.0, **SETTINGS | {"solver": "n_slack"} | others),
}
# Eager moves h* within an iteration; n-slack ends at any w within the gap, which θ then follows: their first iterations may differ.
STEADY = [name for name in CASES if name not in ("LSVM eager", "DISC n-slack")]
KNOWN = {"Supervised": slice(None), "DISC": slice(0, 9, 2)}  # samples whose h is given
STARTS = ["random", "central", "uniform", "likelihood"]
BEGUN = [*(("DISC", init) for init in STARTS), ("DISC prior", "likelihood"), ("DISC prior", "prior")]
WEAK = {name: {"init": STARTS[i % 4], "tol": 1e-4} for i, name in enumerate(CASES)}  # trainings from a weak signal


def samples(name, signal=6.0):
    """Candidates, y, the known h, and a start that is wrong for a quarter of the samples.

    Sums in another order differ in the last digit. With a strong signal no score is near another, so that every h* and every prediction is
    the same whatever that digit is. With a weak signal some are near ties, and trainings over ranks may end in another local optimum.
    """
    p = problem(5, n=21, d=6, most=7, signal=signal, phi=4 if name == "DISC slack" else 0)
    h = torch.full_like(p.h, -1)
    h[KNOWN.get(name, slice(0))] = p.h[KNOWN.get(name, slice(0))]
    if name == "DISC prior":
        p.candidates = p.candidates.with_prior(log_weights(p.candidates))
    return p.candidates, p.y, h, torch.where(torch.arange(21) % 4 == 0, random_h(p, 0), p.h)


def log_weights(candidates):
    return torch.randn(candidates.n_candidates, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def one_iteration(name):
    """A training that has made its first iteration."""
    model = CASES[name]()
    model.begin(*shard(*samples(name)))
    model.step()
    return model


def rank(index, folder):
    """All that the tests ask of two ranks, in one process each: to start one takes longer than all of it."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=index, world_size=2)
    found = {"learned": {}, "state": {}, "second": {}, "resumed": {}, "refused": {}, "start": {}, "belief": {}, "weak": {}}
    for name, make in CASES.items():
        given = shard(*samples(name))
        found["learned"][name] = make().fit(*given).state_dict()
        model = one_iteration(name)
        found["state"][name], found["second"][name] = deepcopy(model.state_dict()), model.step()  # θ moves in place
        resumed = make()
        resumed.begin(*given)
        resumed.load_state_dict(torch.load(folder / f"{name}.pt", weights_only=True))
        found["resumed"][name] = resumed.step()
        c, y, h, _ = shard(*samples(name, signal=2.0))
        found["weak"][name] = make(**WEAK[name]).fit(c, y, h).state_dict()
    for name, init in BEGUN:
        c, y, h, _ = shard(*samples(name, signal=2.0))
        model = CASES[name](init=init)
        model.begin(c, y, h)
        found["start"][name, init] = gather(c, model._training.start, "candidates")
        found["belief"][name, init] = gather(c, model._training.belief, "candidates")
    c, y, h, _ = shard(*samples("DISC", signal=2.0))
    settings = {"init": "random", "tol": 1e-2}
    found["several"] = CASES["DISC"](n_init=2, seed=3, **settings).fit(c, y, h).objective_
    found["each"] = [CASES["DISC"](seed=seed, **settings).fit(c, y, h).objective_ for seed in (3, 4)]
    c, y, _, _ = shard(*samples("LSVM"))
    found["counts"] = c.counts
    found["sums"] = total(c, torch.ones(3)), mean(c, y), highest(c, float(index)), gather(c, own(c, torch.arange(21), "samples"), "samples")
    loaded, labels = load_shard(folder / "set.npz", samples("LSVM")[1], mmap=True)
    found["loaded"] = loaded.features.clone(), loaded.boxes, loaded.counts, labels, is_mapped(loaded.features), loaded.shard == c.shard
    found["prior"] = loaded.prior.clone()
    for name in ("nan", "short"):
        try:
            load_shard(folder / f"{name}.npz", mmap=True)
        except ValueError as error:
            found["refused"][name] = str(error)
    values = torch.arange(2.0 + index, dtype=torch.float64, requires_grad=True)
    row_mean(values.square()).square().backward()
    found["row_mean"] = values.grad
    for model in (ILSVM(cccp="self_paced"), LSVM(cccp="self_paced"), EM(), DISC(theta_solver="ssd")):
        with pytest.raises(ValueError, match="over several ranks") as error:
            model.fit(c, y)
        found["refused"][str(model)] = str(error.value)
    torch.save(found, folder / f"rank_{index}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    for name in CASES:
        torch.save(one_iteration(name).state_dict(), folder / f"{name}.pt")
    c = samples("LSVM")[0]
    c.with_prior(log_weights(c)).save(folder / "set.npz")
    features = c.features.clone()
    features[-2, 0] = torch.nan
    np.savez(folder / "nan.npz", features=features, counts=c.counts)
    np.savez(folder / "short.npz", features=c.features, counts=c.counts, phi=c.features[1:])
    start_ranks(rank, folder)
    return [torch.load(folder / f"rank_{index}.pt", weights_only=True) for index in range(2)]


def assert_same_within_the_gap(learned, alone):
    assert learned["history"][-1]["objective"] == pytest.approx(alone.objective_, abs=2 * GAP)
    assert torch.allclose(learned["coef"], alone.coef_, rtol=0, atol=CLOSE)
    assert torch.allclose(learned["training"]["p"], alone.state_dict()["training"]["p"], atol=1e-3)
    if isinstance(alone, DISC):
        assert torch.allclose(learned["theta"]["theta"], alone.model_.state_dict()["theta"], atol=1e-3)


@pytest.mark.parametrize("name", list(CASES))
def test_two_ranks_learn_what_one_process_learns(ranks, name):
    alone = CASES[name]().fit(*samples(name))
    assert alone.converged_
    for found in ranks:
        assert found["learned"][name]["converged"]
        assert_same_within_the_gap(found["learned"][name], alone)


@pytest.mark.parametrize("name", STEADY)
def test_the_first_iteration_of_two_ranks_is_that_of_one_process(ranks, name):
    alone = one_iteration(name)
    for found in ranks:
        assert_same_within_the_gap(found["state"][name], alone)


@pytest.mark.parametrize("name", STEADY)
def test_training_goes_on_over_another_number_of_ranks(ranks, name):
    resumed = CASES[name]()
    resumed.begin(*samples(name))
    resumed.load_state_dict(ranks[0]["state"][name])  # one process continues what two began
    pairs = [(resumed.step(), ranks[0]["second"][name])]
    alone = one_iteration(name).step()
    pairs += [(found["resumed"][name], alone) for found in ranks]  # and two where one was
    for row, expected in pairs:
        assert row["iteration"] == 2
        assert row["objective"] == pytest.approx(expected["objective"], abs=2 * GAP)
        for term in ("loss", "error", "entropy", "diversity"):
            assert row[term] == pytest.approx(expected[term], abs=1e-3), term


@pytest.mark.parametrize(("name", "init"), BEGUN)
def test_the_start_over_two_ranks_is_that_of_one_process(ranks, name, init):
    alone = CASES[name](init=init)
    alone.begin(*samples(name, signal=2.0)[:3])
    for found in ranks:
        assert torch.equal(found["start"][name, init], alone._training.start)
        assert torch.allclose(found["belief"][name, init], alone._training.belief, rtol=0, atol=1e-5)  # the covariance is summed in float32


def in_one_process(name, state):
    """The training of one process with what two ranks learned from a weak signal."""
    model = CASES[name](**WEAK[name])
    model.begin(*samples(name, signal=2.0)[:3])
    model.load_state_dict(state)
    return model


@pytest.mark.parametrize("name", list(CASES))
def test_both_ranks_end_with_the_same_numbers_and_one_process_confirms_them(ranks, name):
    """Where the signal is weak too, though trainings may end in another local optimum there than in one process."""
    state, other = (found["weak"][name] for found in ranks)
    assert torch.equal(state["coef"], other["coef"])
    assert torch.equal(state["training"]["p"], other["training"]["p"])
    assert state["converged"]
    alone = in_one_process(name, state)
    terms = alone._objective() if isinstance(alone, BlockLearner) else alone._training.objective()
    row = {**terms.terms(), **alone._training.measures()}
    assert row == pytest.approx({k: state["history"][-1][k] for k in row}, abs=1e-9)
    assert all(done["decrease"] >= -1e-9 for done in state["history"])


@pytest.mark.parametrize("name", ["LSVM", "LSVM overlap", "LSVM by row", "Supervised", "LSVM n-slack", "LSVM eager"])
def test_two_ranks_end_at_the_optimum_of_their_last_convex_problem(ranks, name):
    state = ranks[0]["weak"][name]
    training = in_one_process(name, state)._training
    c, h = training.candidates, training.imputed() - training.candidates.offsets
    optimum, _ = structural_svm(Problem(c, training.y, h, 3), training.expected_loss().double().numpy(), h, C)
    assert -1e-6 <= state["history"][-1]["objective"] - optimum <= C * WEAK[name]["tol"]


def test_of_several_starts_over_two_ranks_the_lowest_is_kept(ranks):
    for found in ranks:
        assert found["several"] == min(found["each"])


def test_ranks_hold_all_samples_once_and_sum_over_them(ranks):
    c, y, _, _ = samples("LSVM")
    assert torch.equal(torch.cat([found["counts"] for found in ranks]), c.counts)
    for found in ranks:
        ones, average, most, whole = found["sums"]
        assert ones.tolist() == [2.0] * 3
        assert float(average) == pytest.approx(float(y.double().mean()))
        assert most == 1.0
        assert whole.tolist() == list(range(21))
        assert len([name for name in found["refused"] if "(" in name]) == 4


def test_a_rank_reads_and_checks_its_own_part_of_a_file(ranks):
    for index, found in enumerate(ranks):
        c, y, _, _ = samples("LSVM")
        first, last = (0, len(ranks[0]["counts"])) if index == 0 else (len(ranks[0]["counts"]), 21)
        features, boxes, counts, labels, mapped, same = found["loaded"]
        assert torch.equal(features, c.part(first, last).features)
        assert torch.equal(boxes, c.part(first, last).boxes)
        assert torch.equal(found["prior"], c.with_prior(log_weights(c)).part(first, last).prior)
        assert torch.equal(counts, c.counts[first:last])
        assert torch.equal(labels, y[first:last])
        assert (mapped, same) == (True, True)
        assert "phi must have" in found["refused"]["short"]
    assert "nan" not in ranks[0]["refused"]  # it is not of its rows
    begins = int(ranks[0]["counts"].sum())
    row = c.n_candidates - 2 - begins
    assert (
        f"rows {begins} to {c.n_candidates - 1}, those of rank 1: features must be finite, but row {row} holds NaN"
        in ranks[1]["refused"]["nan"]
    )


def test_a_mean_over_ranks_has_derivatives_in_the_values_of_all(ranks):
    whole = torch.tensor([0.0, 1.0, 0.0, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
    (2 * whole.square().mean().square()).backward()  # each of the two ranks has it once
    assert torch.allclose(torch.cat([found["row_mean"] for found in ranks]), whole.grad)


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_candidates_are_divided_evenly(parts):
    counts = torch.randint(1, 9, (40,), generator=torch.Generator().manual_seed(parts))
    bounds, rows = divide(counts, parts)
    assert [sum(counts[a:b].tolist()) for a, b in pairwise(bounds)] == [b - a for a, b in pairwise(rows)]
    assert (bounds[0], bounds[-1], rows[-1]) == (0, 40, int(counts.sum()))
    assert max(abs((b - a) - int(counts.sum()) / parts) for a, b in pairwise(rows)) <= 16


def test_a_part_is_never_empty_and_too_few_samples_are_refused():
    assert divide(torch.tensor([1, 1, 100]), 3) == ((0, 1, 2, 3), (0, 1, 2, 102))
    assert divide(torch.tensor([100, 1, 1]), 3) == ((0, 1, 2, 3), (0, 100, 101, 102))
    with pytest.raises(ValueError, match="2 samples cannot be divided over 3 ranks"):
        divide(torch.tensor([1, 1]), 3)


def test_a_set_that_is_not_divided_needs_no_process_group():
    c = Candidates(torch.eye(3), [2, 1])
    part, y, nothing = shard(c, [0, 1], None)
    assert part is c
    assert (y.tolist(), nothing) == ([0, 1], None)
