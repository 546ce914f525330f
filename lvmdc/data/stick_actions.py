"""Embedded action detection: stick figures in action among bystanders."""

import numpy as np
from PIL import Image, ImageDraw

from lvmdc.data.photographs import photograph_crop
from lvmdc.data.pictures import PictureSet
from lvmdc.data.stick_figures import POSES, STANDING, Figure, Stroke, circle, figure

FINE = 4  # drawn this many times larger and averaged, which smooths the edges


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
) -> PictureSet:
    """Pictures that each show one person doing one of ten things, labelled with the action but not with who does it.

    The actions are those of PASCAL VOC, drawn as stick figures: jumping, phoning, playing guitar, reading, riding a bike, riding a
    horse, running, taking a photo, using a computer, walking. Joint angles vary by `pose_jitter` degrees (standard deviation); size,
    place and side are random. `bystanders` stand about, over `clutter` loose strokes on `background` × a grey crop of a scikit-learn
    photograph, with Gaussian `noise`. Picture i of an action is the same whatever `per_class` is.

    The true box holds the acting person, without the horse. `objects` are the boxes of all persons, the acting one first;
    candidates come from `lvmdc.proposals.JitteredBoxes.around(pictures)`, which reports them all alike, about 20 boxes a picture.

    >>> pictures = stick_actions(per_class=1)
    >>> pictures, pictures.image(0).size, len(pictures.objects[0])
    (PictureSet(10 pictures of 10 classes, boxes, objects), (128, 128), 3)
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
            picture = np.maximum(background * photograph_crop(rng, canvas), _drawn(inked, width, canvas))
            picture += noise * rng.standard_normal(picture.shape)
            sources.append(np.round(255 * picture.clip(0, 1)).astype(np.uint8))
            names.append(f"{action} number {i}")
            y.append(k)
            objects.append(np.stack([_box(person, width, canvas) for person in people]))
    return PictureSet(sources, list(POSES), y, np.stack([o[0] for o in objects]), names, objects=objects)


def _placed(person: Figure, rng: np.random.Generator, size: float, canvas: int, others: list[Figure]) -> Figure:
    """The person at a random place inside the canvas, props and all; of some tries, the one that hides least of the others."""
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
    """(canvas, canvas) strokes of one width, each of its own brightness, later ones over earlier ones."""
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
