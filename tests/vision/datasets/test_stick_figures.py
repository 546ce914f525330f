import numpy as np
import pytest

from lvmdc.vision.datasets.stick_figures import FOREARM, POSES, SHIN, STANDING, THIGH, UPPER_ARM, figure


@pytest.mark.parametrize("pose", [*POSES.values(), STANDING])
def test_limbs_keep_their_lengths_in_every_pose(pose):
    person = figure(pose, np.random.default_rng(0), jitter=20.0)
    limbs = [np.linalg.norm(np.diff(s.points, axis=0), axis=1) for s in person.body[2:]]
    for arm, leg in (limbs[:2], limbs[2:]):
        assert np.allclose(arm, [UPPER_ARM, FOREARM])
        assert np.allclose(leg, [THIGH, SHIN])


def test_a_flip_mirrors_and_a_move_scales_the_bounds():
    person = figure(POSES["running"], np.random.default_rng(0), jitter=0.0)
    x1, y1, x2, y2 = person.bounds()
    assert np.allclose(
        person.moved(10.0, True, np.array([100.0, 50.0])).bounds(), [100 - 10 * x2, 50 + 10 * y1, 100 - 10 * x1, 50 + 10 * y2]
    )


def test_bounds_with_props_hold_the_horse():
    rider = figure(POSES["riding a horse"], np.random.default_rng(0), jitter=0.0)
    alone, whole = rider.bounds(), rider.bounds(props=True)
    assert (whole[:2] <= alone[:2]).all()
    assert (whole[2:] >= alone[2:]).all()
    assert whole[2] - whole[0] > 2 * (alone[2] - alone[0])
