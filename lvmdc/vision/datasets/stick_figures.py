"""Embedded action detection: drawn stick figures in action among bystanders."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw

from lvmdc.vision.datasets.digits import photograph_crop
from lvmdc.vision.datasets.images import ImageSet

FINE = 4  # drawn this many times larger and averaged, which smooths the edges
# Lengths as shares of the height of a standing figure.
HEAD, NECK, TORSO, UPPER_ARM, FOREARM, THIGH, SHIN = 0.075, 0.03, 0.31, 0.17, 0.16, 0.24, 0.24


@dataclasses.dataclass(frozen=True)
class Stroke:
    """A polyline, or the area within it."""

    points: np.ndarray  # (m, 2)
    filled: bool = False

    def moved(self, scale: float, flip: bool, offset: np.ndarray) -> Stroke:
        """The stroke scaled about the origin, turned to the other side where `flip`, then shifted."""
        return Stroke(self.points * [-scale if flip else scale, scale] + offset, self.filled)


@dataclasses.dataclass(frozen=True)
class Pose:
    """Angles in degrees for a figure that looks to the right. Limbs hang at 0 and swing forward with a positive angle; the second angle is
    the bend of the elbow or knee. The torso is upright at 0 and leans forward with a positive angle."""

    torso: float
    near_arm: tuple[float, float]
    far_arm: tuple[float, float]
    near_leg: tuple[float, float]
    far_leg: tuple[float, float]
    prop: Callable[[dict[str, np.ndarray]], list[Stroke]] | None = None


@dataclasses.dataclass(frozen=True)
class Figure:
    """The strokes of a person and of what the person uses, with the hip at the origin."""

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
    """A person of height 1 in a pose whose angles vary by `jitter` degrees (standard deviation); the hip is the origin."""

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
    """(25, 2) points around a circle, or around an ellipse of another half-height, back to the first."""
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


# ---- props: what the hands and the seat touch ---------------------------------------------------------------------


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


def stick_actions(
    seed: int = 0,
    per_class: int = 30,
    canvas: int = 128,
    figure_size: tuple[float, float] = (50, 72),
    pose_jitter: float = 9.0,
    bystanders: int = 2,
    clutter: int = 10,
    background: float = 0.35,
    noise: float = 0.03,
) -> ImageSet:
    """Images that each show one person doing one of ten things, labelled with the action but not with the person.

    The actions are those of PASCAL VOC, drawn as stick figures: jumping, phoning, playing guitar, reading, riding a bike, riding a
    horse, running, taking a photo, using a computer, walking. Joint angles vary by `pose_jitter` degrees (standard deviation); size,
    position and side are random. `bystanders` stand around, over `clutter` loose strokes on `background` × a grey crop of a scikit-learn
    photograph, with Gaussian `noise`. Image i of an action is the same whatever `per_class` is.

    The true box holds the acting person, without the horse. `objects` are the boxes of all persons, the acting one first;
    candidates come from `lvmdc.vision.proposals.JitteredBoxes.around(images)`, which treats them all the same, about 20 boxes per image.

    >>> images = stick_actions(per_class=1)
    >>> images, images.image(0).size, len(images.objects[0])
    (ImageSet(10 images of 10 classes, boxes, objects), (128, 128), 3)
    """
    if per_class < 1 or bystanders < 0 or clutter < 0:
        raise ValueError(f"per_class, bystanders and clutter must be ≥ 1, 0 and 0, but they are {per_class}, {bystanders} and {clutter}")
    if not 8 <= figure_size[0] <= figure_size[1] <= 0.6 * canvas:
        raise ValueError(
            f"figure_size must be (least, most) within 8..{0.6 * canvas:g}, for a horse to fit in, but it is {tuple(figure_size)}"
        )
    sources, names, y, objects = [], [], [], []
    for k, (action, pose) in enumerate(POSES.items()):
        for i in range(per_class):
            rng = np.random.default_rng([seed, k, i])
            people: list[Figure] = []
            for drawn in (pose, *(STANDING,) * bystanders):
                person = figure(drawn, rng, pose_jitter if drawn is pose else pose_jitter / 2)
                people.append(_placed(person, rng, rng.uniform(*figure_size), canvas, people))
            width = float(rng.uniform(2.0, 3.0))
            inked = [(_loose_stroke(rng, canvas), 0.65) for _ in range(clutter)]
            for person in reversed(people):  # the acting one last, in front
                level = rng.uniform(0.8, 1.0)
                inked += [(stroke, 0.75 * level) for stroke in person.props] + [(stroke, level) for stroke in person.body]
            image = np.maximum(background * photograph_crop(rng, canvas), _drawn(inked, width, canvas))
            image += noise * rng.standard_normal(image.shape)
            sources.append(np.round(255 * image.clip(0, 1)).astype(np.uint8))
            names.append(f"{action} number {i}")
            y.append(k)
            objects.append(np.stack([_box(person, width, canvas) for person in people]))
    return ImageSet(sources, list(POSES), y, np.stack([o[0] for o in objects]), names, objects=objects)


def _placed(person: Figure, rng: np.random.Generator, size: float, canvas: int, others: list[Figure]) -> Figure:
    """The person at a random place inside the canvas, props and all; of 12 tries, the one that hides least of the others."""
    turned = person.moved(size, bool(rng.integers(2)), np.zeros(2))
    bounds = turned.bounds(props=True)
    least, most = 2 - bounds[:2], canvas - 2 - bounds[2:]
    offsets = least + rng.uniform(0, 1, (12, 2)) * np.maximum(most - least, 0)
    taken = [other.bounds(props=True) for other in others]
    hidden = [sum(_common(bounds + np.tile(offset, 2), other) for other in taken) for offset in offsets]
    return turned.moved(1.0, False, offsets[int(np.argmin(hidden))])


def _common(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.prod((np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])).clip(0)))


def _box(person: Figure, width: float, canvas: int) -> np.ndarray:
    reach = width / 2 * np.array([-1, -1, 1, 1])
    return (person.bounds() + reach).clip(0, canvas).astype(np.float32)


def _loose_stroke(rng: np.random.Generator, canvas: int) -> Stroke:
    """A bent line or a ring, about as large as a limb or a wheel."""
    start = rng.uniform(0, canvas, 2)
    if rng.uniform() < 0.2:
        return Stroke(circle(start, float(rng.uniform(4, 12))))
    turns = rng.uniform(0, 2 * np.pi) + np.cumsum(rng.uniform(-1.2, 1.2, 2))
    steps = rng.uniform(6, 18, (2, 1)) * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    return Stroke(np.concatenate([start[None], start + np.cumsum(steps, axis=0)]))


def _drawn(inked: list[tuple[Stroke, float]], width: float, canvas: int) -> np.ndarray:
    """(canvas, canvas) strokes of one width, later ones over earlier ones."""
    sheet = Image.new("L", (canvas * FINE, canvas * FINE))
    pen = ImageDraw.Draw(sheet)
    radius = width * FINE / 2
    for stroke, brightness in inked:
        points, level = [(float(x), float(y)) for x, y in stroke.points * FINE], round(255 * brightness)
        if stroke.filled:
            pen.polygon(points, fill=level)
            continue
        pen.line(points, fill=level, width=round(2 * radius))
        for x, y in points:  # round ends and joints
            pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=level)
    return np.asarray(sheet.reduce(FINE), np.float32) / 255
