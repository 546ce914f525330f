"""When a stochastic training has learned enough."""

import math

import pytest

from lvmdc.learners import ConvergenceWarning
from lvmdc.lightning.convergence import BlockConvergence, Plateau
from lvmdc.lightning.dual_steps import Bounds
from lvmdc.objective import Objective


def followed(rule, curve, most=4000):
    """How many epochs of a curve are followed, and where it is left."""
    rule.origin = curve(0)
    for t in range(1, most + 1):
        rule.add(Objective(0.0, 0.0, curve(t), 0.0, C=1.0, beta=0.1), {}, passes=1, seconds=0.0)
        if rule.converged:
            return t, curve(t)
    return most, curve(most)


@pytest.mark.parametrize("slowness", [1, 10, 50])
def test_what_falls_as_one_over_t_stops_within_a_fortieth_of_its_gain_however_slow(slowness):
    _, left = followed(Plateau(tol=math.inf), lambda t: 1 / (1 + t / slowness))
    assert left <= 0.025


def test_a_fast_one_stops_early():
    t, left = followed(Plateau(tol=1e-3), lambda t: 0.2**t)
    assert t == 20  # the fewest epochs that show it
    assert left < 1e-3


def test_one_that_swings_does_not_stop():
    t, _ = followed(Plateau(tol=1e-3), lambda t: 1 + math.sin(t / 7) if t else 10.0, most=300)
    assert t == 300


def test_nothing_to_gain_is_enough():
    t, _ = followed(Plateau(tol=1e-3), lambda t: 1.0)
    assert t == 20


# ---- blocks --------------------------------------------------------------------------------------------------------


def test_w_is_proven_by_a_small_gap_without_a_gain_and_goes_on_after_theta_gained():
    rule = BlockConvergence(tol=0.1)
    rule.origin = 10.0
    assert rule.h_moves(Bounds(5.0, origin=10.0, dual=4.0), value=5.0)
    assert not rule.proven  # a gap of 1
    assert rule.h_moves(Bounds(4.95, origin=10.0, dual=4.94), value=4.95)
    assert rule.proven
    rule.theta_solved(2.0, w_value=4.5, value=6.0)
    assert not rule.proven
    assert not rule.converged
    assert rule.h_moves(Bounds(4.5, origin=10.0, dual=3.0), value=4.5)  # a gap of 1.5 will do where θ gained 2
    assert rule.h_moves(Bounds(4.5, origin=10.0, dual=4.49), value=4.5)
    rule.theta_solved(0.01, w_value=4.5, value=6.0)
    assert rule.converged


def test_h_waits_for_what_the_last_round_gained_and_with_eager_only_for_a_gain():
    bounds = Bounds(6.0, origin=10.0, dual=1.0)  # a gap of 5
    assert not BlockConvergence(tol=0.1).h_moves(bounds, value=6.0)
    assert BlockConvergence(tol=0.1, cccp="eager").h_moves(bounds, value=6.0)


def test_with_exact_cccp_h_waits_for_the_last_gap():
    rule = BlockConvergence(tol=0.1, cccp="exact")
    for gap, moves in ((1.0, False), (0.06, False), (0.05, True)):  # half of the tolerance
        assert rule.h_moves(Bounds(5.0, origin=10.0, dual=5.0 - gap), value=3.0) == moves
    assert not rule.proven  # (13) fell by 7


def test_with_exact_cccp_h_does_not_wait_where_the_origin_solves_the_held_problem():
    rule = BlockConvergence(tol=0.1, cccp="exact")
    assert rule.h_moves(Bounds(10.2, origin=10.0, dual=9.995), value=9.5)


def test_where_the_origin_solves_the_held_problem_h_moves_by_a_w_that_lowers_the_latent_one():
    rule = BlockConvergence(tol=0.1)
    assert rule.h_moves(Bounds(10.2, origin=10.0, dual=9.9), value=9.5)
    assert not rule.proven


def test_an_unfinished_one_says_how_far_w_may_be_from_its_optimum():
    rule = BlockConvergence(tol=0.1)
    rule.origin = 10.0
    rule.add(Objective(0.0, 0.0, 6.0, 0.0, C=1.0, beta=0.1), {"gap": 5.0}, passes=1, seconds=0.0)
    with pytest.warns(ConvergenceWarning, match="stopped after 1 epochs, but w may be 5 above the optimum"):
        rule.warn_if_unfinished()


def test_the_state_is_all_that_another_needs():
    rule, other = BlockConvergence(tol=0.1), BlockConvergence(tol=0.1)
    rule.origin = 10.0
    rule.h_moves(Bounds(5.0, origin=10.0, dual=4.99), value=5.0)
    rule.h_moves(Bounds(5.0, origin=10.0, dual=4.99), value=5.0)
    other.load(rule.state())
    assert vars(other) == vars(rule)
    assert other.proven
