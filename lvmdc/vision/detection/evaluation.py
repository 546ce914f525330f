"""How good a detector is, and what it is compared with: a detector trained with ground-truth boxes, and baselines that learn nothing."""

import torch
from torch import Tensor

from lvmdc.boxes import LabelledBoxes, box_iou
from lvmdc.candidates import Candidates
from lvmdc.priors import Prior, ProductPrior
from lvmdc.segments import segment_argmax
from lvmdc.solvers.initial import Init, starting_weights
from lvmdc.vision import metrics
from lvmdc.vision.datasets.images import ImageSet
from lvmdc.vision.detection.detector import Detector

BASELINES: dict[str, Init] = {"central": "central", "random": "uniform"}
SHARE = 0.7  # of each side of the image, of the centred box


def baselines(candidates: Candidates, images: ImageSet, iou: float = 0.5, prior: Prior | None = None) -> dict[str, float]:
    """CorLoc, the mean over the classes that are shown, of guesses that learn nothing; nothing where no true box is known.

    They are the most central candidate of each image, a random one, a centred box of 70 % of each side of the image, and, where the
    candidates have a prior, the most probable one; and the most probable one of each part of a `prior` that is a product.

    >>> import numpy as np
    >>> c = Candidates(torch.zeros(3, 1), [3], boxes=[[0, 0, 2, 2], [1, 0, 3, 2], [2, 0, 4, 2]])
    >>> images = ImageSet([np.zeros((2, 4), np.uint8)], ["cat"], boxes=LabelledBoxes([0], [0], [[1, 0, 3, 2]]))
    >>> {name: round(value, 2) for name, value in baselines(c, images).items()}
    {'central': 1.0, 'random': 0.33, 'centred_box': 1.0}
    """
    truth = None if images.truth is None else images.truth[~images.truth.difficult]
    if truth is None or len(truth) == 0:
        return {}
    candidates = candidates.to("cpu")
    every = torch.ones(candidates.n_candidates, dtype=torch.bool)
    weights = {name: (candidates, starting_weights(init, candidates, every)) for name, init in BASELINES.items()}
    weights["centred_box"] = _centred(images), torch.ones(len(images))
    if candidates.prior is not None and candidates.prior.dim() == 1:
        weights["prior"] = candidates, _best(candidates, candidates.prior)
    for part in prior.priors if isinstance(prior, ProductPrior) else ():
        assert candidates.boxes is not None
        boxes = candidates.boxes.split(candidates.counts.tolist())
        log_weights = torch.cat([part(images.image(i), boxes[i]) for i in range(len(images))])
        weights[f"{part.name.replace(' ', '_')}_prior"] = candidates, _best(candidates, log_weights)
    return {name: float(_expected(c, p, truth, len(images.classes), iou).nanmean()) for name, (c, p) in weights.items()}


def _best(candidates: Candidates, values: Tensor) -> Tensor:
    """(T,): 1 for the candidate of each image with the highest value, 0 for the others."""
    return torch.zeros(candidates.n_candidates).index_fill(0, segment_argmax(values, candidates.counts), 1.0)


def _centred(images: ImageSet) -> Candidates:
    """One candidate per image, in its middle."""
    sides = torch.tensor([images.size(i) * 2 for i in range(len(images))], dtype=torch.float32)
    first = (1 - SHARE) / 2
    return Candidates(torch.zeros(len(images), 1), [1] * len(images), sides * torch.tensor([first, first, 1 - first, 1 - first]))


def _expected(candidates: Candidates, p: Tensor, truth: LabelledBoxes, n_classes: int, iou: float) -> Tensor:
    """(K,): how often a candidate drawn with the probabilities p (T,) overlaps a true box of class k by `iou`, in images that show it."""
    assert candidates.boxes is not None
    hits: list[list[float]] = [[] for _ in range(n_classes)]
    for i in truth.image.unique().tolist():
        rows = slice(int(candidates.offsets[i]), int(candidates.offsets[i] + candidates.counts[i]))
        here = truth.of_image(i)
        near = box_iou(candidates.boxes[rows, None], here.box.to(candidates.boxes)) >= iou  # (m, boxes)
        for k in here.label.unique().tolist():
            hits[k].append(float(p[rows][near[:, here.label == k].any(dim=1)].sum()))
    return torch.tensor([sum(each) / len(each) if each else torch.nan for each in hits], dtype=torch.float64)


def measure(detector: Detector, candidates: Candidates, images: ImageSet, iou: float = 0.5, coco: bool = False) -> dict[str, float]:
    """Means over the classes that the images show, each at an overlap of `iou`; and, for each class, `<measure>/<class>`.

    `corloc` of the best box for each label, `ap` and `ap_11_point`, VOC's average precision, `recall`, the share of the true boxes that
    some candidate finds, and, with `coco`, COCO's precisions (`coco/AP`, …). All of the images whose true boxes are known.

    >>> import numpy as np, torch
    >>> from lvmdc import LSVM, LabelledBoxes
    >>> c = Candidates(torch.tensor([[3.0], [0.0], [0.0], [0.1]]), [2, 2], [[0, 0, 2, 2], [4, 0, 6, 2]] * 2)
    >>> truth = LabelledBoxes([0], [0], [[0, 0, 2, 2]])
    >>> images = ImageSet([np.zeros((2, 6), np.uint8)] * 2, ["cat"], boxes=truth)
    >>> measure(Detector(LSVM(C=10.0, init="uniform")).fit(c, images.table), c, images)["corloc"]
    1.0
    """
    boxed = images.boxed
    if bool(boxed.any()) and not bool(boxed.all()):
        candidates, images = candidates.subset(boxed.to(candidates.device)), images.subset(boxed)
    truth, n_classes = images.truth, len(images.classes)
    if truth is None or not bool((~truth.difficult).any()):
        return {}
    found, located = detector.predict(candidates).to("cpu"), detector.locate(candidates, images.table).to("cpu")
    by_class = {
        "corloc": metrics.corloc_by_class(located, truth, n_classes, iou),
        "ap": metrics.average_precision(found, truth, n_classes, iou),
        "ap_11_point": metrics.average_precision(found, truth, n_classes, iou, "11_point"),
    }
    values = {name: float(column.nanmean()) for name, column in by_class.items()}
    values["recall"] = metrics.box_recall(candidates.to("cpu"), truth, iou)
    if coco:
        precisions = metrics.coco_average_precision(found, truth, len(images))
        values |= {f"coco/{name}": value for name, value in precisions.items() if value >= 0}
    for name, column in by_class.items():
        values |= {f"{name}/{images.classes[k]}": float(column[k]) for k in range(n_classes) if not bool(column[k].isnan())}
    return values


def supervised(detector: Detector, candidates: Candidates, images: ImageSet) -> Detector:
    """The same detector trained with ground-truth boxes: the upper bound that weak supervision is compared with.

    >>> import numpy as np
    >>> from lvmdc import DISC
    >>> images = ImageSet([np.zeros((4, 8, 3), np.uint8)] * 2, ["cat", "dog"], boxes=LabelledBoxes([0, 1], [0, 1], [[0, 0, 4, 4]] * 2))
    >>> x = torch.tensor([[3.0, 0.0], [0.0, 0.0], [0.0, 3.0], [0.0, 0.0]])
    >>> candidates = Candidates(x, [2, 2], [[0, 0, 4, 4], [4, 0, 8, 4]] * 2)
    >>> supervised(Detector(DISC(C=10.0)), candidates, images).locate(candidates, images.table).box[:, 0]
    tensor([0., 0.])
    """
    truth, labels = images.truth, images.table
    if truth is None:
        raise ValueError("images must have ground-truth boxes to train with, but images.truth is None")
    found: Detector = detector.clone()
    assert found.learner is not None
    found.learner.set_params(init="uniform", n_init=1)
    # Precision and CorLoc order the boxes of one class: scores need not be probabilities for it, but all of them must be there.
    wanted = {"start": "learner", "calibration": 0, "min_score": 0.0}
    found.set_params(**{name: value for name, value in wanted.items() if name in found.get_params(deep=False)})
    found.begin(candidates, labels)
    found.fit_boxes(candidates, labels, truth)
    return found
