"""When a stochastic training has learned enough."""

import math

import pytest

from lvmdc.learners import ConvergenceWarning
from lvmdc.lightning.convergence import DualEpochs, Epochs
from lvmdc.lightning.dual import Bounds
from lvmdc.objective import Objective


def followed(epochs, curve, most=4000):
    """How many epochs of a curve are followed, and where it is left."""
    epochs.origin = curve(0)
    for t in range(1, most + 1):
        epochs.add(Objective(0.0, 0.0, curve(t), 0.0, C=1.0, beta=0.1), {}, passes=1, seconds=0.0)
        if epochs.converged:
            return t, curve(t)
    return most, curve(most)


@pytest.mark.parametrize("slowness", [1, 10, 50])
def test_what_falls_as_one_over_t_is_left_within_a_fiftieth_of_what_it_can_gain_however_slow(slowness):
    _, left = followed(Epochs(tol=math.inf), lambda t: 1 / (1 + t / slowness))
    assert left <= 0.025


def test_a_fast_one_is_left_soon():
    t, left = followed(Epochs(tol=1e-3), lambda t: 0.2**t)
    assert t == 20  # as soon as it can be told
    assert left < 1e-3


def test_one_that_swings_is_not_left():
    t, _ = followed(Epochs(tol=1e-3), lambda t: 1 + math.sin(t / 7) if t else 10.0, most=300)
    assert t == 300


def test_nothing_to_gain_is_enough():
    t, _ = followed(Epochs(tol=1e-3), lambda t: 1.0)
    assert t == 20


# ---- by turns ----------------------------------------------------------------------------------------------------


def test_w_is_proven_by_a_small_gap_without_a_gain_and_goes_on_after_theta_gained():
    epochs = DualEpochs(tol=0.1)
    epochs.origin = 10.0
    assert epochs.ask(Bounds(5.0, origin=10.0, dual=4.0), value=5.0)
    assert not epochs.proven  # a gap of 1
    assert epochs.ask(Bounds(4.95, origin=10.0, dual=4.94), value=4.95)
    assert epochs.proven
    epochs.end_theta(2.0, w_value=4.5, value=6.0)
    assert not epochs.proven
    assert not epochs.converged
    assert epochs.ask(Bounds(4.5, origin=10.0, dual=3.0), value=4.5)  # a gap of 1.5 will do where θ gained 2
    assert epochs.ask(Bounds(4.5, origin=10.0, dual=4.49), value=4.5)
    epochs.end_theta(0.01, w_value=4.5, value=6.0)
    assert epochs.converged


def test_the_turn_of_theta_ends_when_it_gains_no_more():
    epochs = DualEpochs(tol=0.1)
    epochs.origin, epochs.began = 10.0, [3.0]
    assert epochs.turn_of_theta
    assert [epochs.add_theta(value, 6.0) for value in (2.0, 1.0, 1.0, 1.0)] == [None, None, None, 2.0]


def test_a_theta_that_is_never_still_gives_the_turn_back():
    epochs = DualEpochs(tol=0.1)
    epochs.origin, epochs.began = 10.0, [3.0]
    assert [epochs.add_theta(3.0 + t, 8.0) is None for t in range(1, 51)] == [True] * 49 + [False]


def test_h_waits_for_what_the_last_round_gained_and_with_eager_only_for_a_gain():
    bounds = Bounds(6.0, origin=10.0, dual=1.0)  # a gap of 5
    assert not DualEpochs(tol=0.1).ask(bounds, value=6.0)
    assert DualEpochs(tol=0.1, rounds="eager").ask(bounds, value=6.0)


def test_in_full_rounds_h_waits_for_the_last_gap():
    epochs = DualEpochs(tol=0.1, rounds="exact")
    for gap, moves in ((1.0, False), (0.06, False), (0.05, True)):  # half of the tolerance
        assert epochs.ask(Bounds(5.0, origin=10.0, dual=5.0 - gap), value=3.0) == moves
    assert not epochs.proven  # (13) fell by 7


def test_nor_does_it_wait_in_full_rounds_where_the_origin_solves_the_held_problem():
    epochs = DualEpochs(tol=0.1, rounds="exact")
    assert epochs.ask(Bounds(10.2, origin=10.0, dual=9.995), value=9.5)


def test_where_the_origin_solves_the_held_problem_h_moves_by_a_w_that_lowers_the_latent_one():
    epochs = DualEpochs(tol=0.1)
    assert epochs.ask(Bounds(10.2, origin=10.0, dual=9.9), value=9.5)
    assert not epochs.proven


def test_an_unfinished_one_says_how_far_w_may_be_from_its_optimum():
    epochs = DualEpochs(tol=0.1)
    epochs.origin = 10.0
    epochs.add(Objective(0.0, 0.0, 6.0, 0.0, C=1.0, beta=0.1), {"gap": 5.0}, passes=1, seconds=0.0)
    with pytest.warns(ConvergenceWarning, match="stopped after 1 epochs, but w may be 5 above the optimum"):
        epochs.warn_if_unfinished()


def test_the_state_is_all_that_another_needs():
    epochs, other = DualEpochs(tol=0.1), DualEpochs(tol=0.1)
    epochs.origin = 10.0
    epochs.ask(Bounds(5.0, origin=10.0, dual=4.99), value=5.0)
    epochs.ask(Bounds(5.0, origin=10.0, dual=4.99), value=5.0)
    epochs.began = [3.0]
    other.load(epochs.state())
    assert vars(other) == vars(epochs)
    assert other.turn_of_theta
