"""Stick figures: a pose as joint angles, its props, and the strokes that draw them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

# Lengths as parts of the height of a standing figure.
HEAD, NECK, TORSO, UPPER_ARM, FOREARM, THIGH, SHIN = 0.075, 0.03, 0.31, 0.17, 0.16, 0.24, 0.24


@dataclasses.dataclass(frozen=True)
class Stroke:
    """A polyline, or the area within it.

    >>> Stroke(np.array([[0.0, 0.0], [0.0, 2.0]])).moved(3.0, False, np.array([1.0, 1.0])).points.tolist()
    [[1.0, 1.0], [1.0, 7.0]]
    """

    points: np.ndarray  # (m, 2)
    filled: bool = False

    def moved(self, scale: float, flip: bool, offset: np.ndarray) -> Stroke:
        """The stroke scaled about the origin, turned to the other side where `flip`, then shifted."""
        return Stroke(self.points * [-scale if flip else scale, scale] + offset, self.filled)


@dataclasses.dataclass(frozen=True)
class Pose:
    """Angles in degrees for a figure that looks to the right. Limbs hang at 0 and swing forward with a positive angle; the second
    angle of a limb is the bend of its elbow or knee. The torso stands at 0 and leans forward with a positive angle.

    >>> Pose(0, (9, 6), (-9, 6), (5, -2), (-5, -2)) == STANDING
    True
    """

    torso: float
    near_arm: tuple[float, float]
    far_arm: tuple[float, float]
    near_leg: tuple[float, float]
    far_leg: tuple[float, float]
    prop: Callable[[dict[str, np.ndarray]], list[Stroke]] | None = None


@dataclasses.dataclass(frozen=True)
class Figure:
    """The strokes of a person and of what the person uses, in a frame of their own.

    >>> spine = Figure([Stroke(np.array([[0.0, 0.0], [0.0, 2.0]]))], props=[])
    >>> spine.moved(2.0, False, np.ones(2)).bounds().tolist()
    [1.0, 1.0, 1.0, 5.0]
    """

    body: list[Stroke]
    props: list[Stroke]

    def moved(self, scale: float, flip: bool, offset: np.ndarray) -> Figure:
        """The figure scaled about the origin, turned where `flip`, then shifted."""
        return Figure([s.moved(scale, flip, offset) for s in self.body], [s.moved(scale, flip, offset) for s in self.props])

    def bounds(self, props: bool = False) -> np.ndarray:
        """(4,) the corners x1, y1, x2, y2 about the person, or about the props as well."""
        points = np.concatenate([s.points for s in self.body + (self.props if props else [])])
        return np.concatenate([points.min(axis=0), points.max(axis=0)])


def figure(pose: Pose, rng: np.random.Generator, jitter: float) -> Figure:
    """A person of height 1 in a pose whose angles vary by `jitter` degrees (standard deviation); the hip is the origin.

    >>> person = figure(POSES["walking"], np.random.default_rng(0), jitter=0.0)
    >>> person.bounds().round(2).tolist()
    [-0.24, -0.49, 0.2, 0.44]
    """

    def bent(angles: tuple[float, float], start: np.ndarray, first: float, second: float) -> tuple[np.ndarray, np.ndarray]:
        a, b = (angle + jitter * rng.standard_normal() for angle in angles)
        middle = start + first * _direction(a)
        return middle, middle + second * _direction(a + b)

    lean = pose.torso + 0.5 * jitter * rng.standard_normal()
    up = -_direction(-lean)
    hip = np.zeros(2)
    neck = hip + TORSO * up
    shoulder = neck - 0.04 * up
    head = neck + (NECK + HEAD) * up
    joints = {"hip": hip, "neck": neck, "shoulder": shoulder, "head": head}
    body = [Stroke(np.stack([hip, neck, neck + NECK * up])), Stroke(circle(head, HEAD), filled=True)]
    for side, arm, leg in (("near", pose.near_arm, pose.near_leg), ("far", pose.far_arm, pose.far_leg)):
        elbow, hand = bent(arm, shoulder, UPPER_ARM, FOREARM)
        knee, foot = bent(leg, hip, THIGH, SHIN)
        joints |= {f"{side} hand": hand, f"{side} knee": knee, f"{side} foot": foot}
        body += [Stroke(np.stack([shoulder, elbow, hand])), Stroke(np.stack([hip, knee, foot]))]
    return Figure(body, [] if pose.prop is None else pose.prop(joints))


def circle(centre: np.ndarray, radius: float, height: float | None = None) -> np.ndarray:
    """(25, 2) points around a circle, or around an ellipse of another half-height, back to the first.

    >>> circle(np.zeros(2), 1.0).shape
    (25, 2)
    """
    turn = np.linspace(0, 2 * np.pi, 25)
    return centre + np.stack([radius * np.cos(turn), (height or radius) * np.sin(turn)], axis=1)


def _direction(degrees: float) -> np.ndarray:
    return np.array([np.sin(np.radians(degrees)), np.cos(np.radians(degrees))])


def _line(*points: np.ndarray | tuple[float, float]) -> Stroke:
    return Stroke(np.array([np.asarray(p, float) for p in points]))


def _off(point: np.ndarray, x: float, y: float) -> np.ndarray:
    return point + np.array([x, y])


def _block(centre: np.ndarray, width: float, height: float) -> Stroke:
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * [width / 2, height / 2]
    return Stroke(centre + corners, filled=True)


# ---- props: what the hands and the seat are at --------------------------------------------------------------------


def _phone(at: dict[str, np.ndarray]) -> list[Stroke]:
    return [_block(at["near hand"], 0.05, 0.12)]


def _guitar(at: dict[str, np.ndarray]) -> list[Stroke]:
    body = _off(at["hip"], 0.04, -0.07)
    return [Stroke(circle(body, 0.13, 0.1), filled=True), _line(body, at["far hand"], at["far hand"] + 0.2 * (at["far hand"] - body))]


def _book(at: dict[str, np.ndarray]) -> list[Stroke]:
    spine = (at["near hand"] + at["far hand"]) / 2
    left, right = _off(spine, -0.13, -0.08), _off(spine, 0.13, -0.08)
    return [Stroke(np.stack([spine, left, _off(left, 0, 0.14), _off(spine, 0, 0.14), _off(right, 0, 0.14), right]), filled=True)]


def _camera(at: dict[str, np.ndarray]) -> list[Stroke]:
    body = (at["near hand"] + at["far hand"]) / 2
    return [_block(body, 0.14, 0.12), _block(_off(body, 0.1, 0), 0.08, 0.07)]


def _desk(at: dict[str, np.ndarray]) -> list[Stroke]:
    hands = (at["near hand"] + at["far hand"]) / 2
    top = hands[1] + 0.04
    floor = max(at["near foot"][1], at["far foot"][1])
    desk = _line((hands[0] - 0.08, top), (hands[0] + 0.36, top), (hands[0] + 0.36, floor))
    stool = _line((-0.12, 0.03), (0.1, 0.03), (-0.01, 0.03), (-0.01, floor))
    return [desk, stool, _line((hands[0] + 0.14, top), (hands[0] + 0.22, top - 0.26))]


def _bicycle(at: dict[str, np.ndarray]) -> list[Stroke]:
    pedals = (at["near foot"] + at["far foot"]) / 2
    grip = (at["near hand"] + at["far hand"]) / 2
    rear, front = _off(pedals, -0.3, -0.02), _off(pedals, 0.36, -0.02)
    frame = _line(rear, pedals, (0.0, 0.03), rear)
    return [
        Stroke(circle(rear, 0.2)),
        Stroke(circle(front, 0.2)),
        frame,
        _line(pedals, _off(grip, 0.0, 0.1), (0.0, 0.03)),
        _line(grip, front),
    ]


def _horse(at: dict[str, np.ndarray]) -> list[Stroke]:
    belly = np.array([0.05, 0.15])
    mane, muzzle = _off(belly, 0.48, -0.3), _off(belly, 0.62, -0.2)
    legs = [_line(_off(belly, x, 0.04), _off(belly, x + d, 0.42)) for x, d in ((-0.26, -0.05), (-0.2, 0.04), (0.24, -0.03), (0.3, 0.07))]
    tail = _line(_off(belly, -0.32, -0.05), _off(belly, -0.46, 0.2))
    return [Stroke(circle(belly, 0.34, 0.12), filled=True), _line(_off(belly, 0.28, -0.03), mane, muzzle), tail, *legs]


STANDING = Pose(0, (9, 6), (-9, 6), (5, -2), (-5, -2))

POSES = {
    "jumping": Pose(0, (155, 10), (-155, -10), (42, -55), (-42, 55)),
    "phoning": Pose(0, (55, 118), (-9, 8), (5, -2), (-5, -2), _phone),
    "playing guitar": Pose(0, (-25, 95), (50, 45), (8, -2), (-8, -2), _guitar),
    "reading": Pose(4, (35, 65), (22, 75), (5, -2), (-5, -2), _book),
    "riding a bike": Pose(42, (50, 5), (45, 10), (75, -80), (30, -45), _bicycle),
    "riding a horse": Pose(4, (45, 30), (38, 35), (60, -70), (50, -65), _horse),
    "running": Pose(18, (-50, 85), (45, 85), (58, -60), (-28, -62)),
    "taking a photo": Pose(3, (80, 60), (70, 70), (6, -2), (-6, -2), _camera),
    "using a computer": Pose(8, (40, 42), (34, 46), (85, -85), (80, -80), _desk),
    "walking": Pose(3, (-24, 12), (24, 12), (26, -4), (-22, -16)),
}
