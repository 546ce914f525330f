"""How good a detector is, and what it is compared with: a detector trained with ground-truth boxes, and baselines that learn nothing."""

import torch
from sklearn.base import clone
from torch import Tensor

from lvmdc.boxes import LabelledBoxes, box_area, box_iou
from lvmdc.candidates import Candidates
from lvmdc.solvers.initial import Init, starting_weights
from lvmdc.storage.mapped import take
from lvmdc.vision import metrics
from lvmdc.vision.datasets.images import ImageSet
from lvmdc.vision.detection.detector import Detector


def ground_truth_candidates(candidates: Candidates, truth: LabelledBoxes, n_classes: int) -> Tensor:
    """(n, K) the candidate that overlaps the largest object of each class best, −1 where an image has none that is not difficult.

    >>> candidates = Candidates(torch.zeros(2, 1), [2], boxes=[[0, 0, 2, 2], [4, 0, 8, 4]])
    >>> ground_truth_candidates(candidates, LabelledBoxes([0, 0], [1, 1], [[0, 0, 2, 2], [4, 0, 8, 3]]), n_classes=2)
    tensor([[-1,  1]])
    """
    if candidates.boxes is None:
        raise ValueError("candidates must have boxes, but candidates.boxes is None")
    h = torch.full((len(candidates), n_classes), -1, device=candidates.device)
    easy = truth[~truth.difficult].to(candidates.device)
    easy = easy[box_area(easy.box).argsort(stable=True)]  # the largest of a class comes last, and stays
    first, count = candidates.offsets.tolist(), candidates.counts.tolist()
    for i, k, box in zip(easy.image.tolist(), easy.label.tolist(), easy.box, strict=True):
        h[i, k] = box_iou(candidates.boxes[first[i] : first[i] + count[i]], box.to(candidates.boxes)).argmax()
    return h


def ground_truth_objects(candidates: Candidates, truth: LabelledBoxes, k: int, iou: float = 0.5) -> tuple[Candidates, Tensor, Tensor]:
    """Ground truth of every object of class k, not only of the largest in an image: an image comes once for each of them.

    Each time without the candidates that show another object of the class, by an overlap of `iou` and more than this one: they would be
    wrong h, though they are right. An image without an object of the class that is not difficult comes once, as it is.

    Returns:
        The candidates of the m images; (m,) which image each is; (m,) h, the candidate that overlaps the object best, or −1.

    >>> candidates = Candidates(torch.arange(3.0)[:, None], [3], boxes=[[0, 0, 2, 2], [2, 0, 4, 2], [4, 0, 8, 4]])
    >>> found, image, h = ground_truth_objects(candidates, LabelledBoxes([0, 0], [0, 0], [[0, 0, 2, 2], [4, 0, 8, 3]]), 0)
    >>> found.features.flatten().tolist(), found.counts.tolist(), image.tolist(), h.tolist()
    ([0.0, 1.0, 1.0, 2.0], [2, 2], [0, 0], [0, 1])
    """
    if candidates.boxes is None:
        raise ValueError("candidates must have boxes, but candidates.boxes is None")
    own = truth.of_label(k).to(candidates.device)
    rows, image, h = [], [], []
    for i, all_rows in enumerate(torch.arange(candidates.n_candidates, device=candidates.device).split(candidates.counts.tolist())):
        here = own.of_image(i)
        overlap = box_iou(candidates.boxes[all_rows, None], here.box.to(candidates.boxes))  # (candidates, objects)
        easy = (~here.difficult).nonzero().flatten().tolist()
        for j in easy:
            others = overlap.index_fill(1, torch.tensor([j], device=overlap.device), 0.0).amax(dim=1)
            best = int(overlap[:, j].argmax())
            kept = (others < iou) | (others <= overlap[:, j])
            kept[best] = True
            rows.append(all_rows[kept])
            h.append(int(kept[:best].sum()))
        if not easy:
            rows.append(all_rows)
            h.append(-1)
        image += [i] * max(1, len(easy))
    joined, counts = torch.cat(rows), torch.tensor([len(part) for part in rows])
    phi = None if candidates.phi is None else take(candidates.phi, joined)
    prior = None if candidates.prior is None else candidates.prior[joined]
    found = Candidates(take(candidates.features, joined), counts, candidates.boxes[joined], phi, prior)
    return found, torch.tensor(image, device=candidates.device), torch.tensor(h, device=candidates.device)


BASELINES: dict[str, Init] = {"central": "central", "random": "uniform"}


def baselines(candidates: Candidates, images: ImageSet, iou: float = 0.5) -> dict[str, float]:
    """CorLoc, the mean over the classes that are shown, of the most central candidate of each image, and of one drawn at random; nothing
    where no true box is known.

    >>> import numpy as np
    >>> c = Candidates(torch.zeros(3, 1), [3], boxes=[[0, 0, 2, 2], [1, 0, 3, 2], [2, 0, 4, 2]])
    >>> images = ImageSet([np.zeros((2, 4), np.uint8)], ["cat"], boxes=LabelledBoxes([0], [0], [[1, 0, 3, 2]]))
    >>> {name: round(value, 2) for name, value in baselines(c, images).items()}
    {'central': 1.0, 'random': 0.33}
    """
    truth = None if images.truth is None else images.truth[~images.truth.difficult]
    if truth is None or len(truth) == 0:
        return {}
    candidates = candidates.to("cpu")
    every = torch.ones(candidates.n_candidates, dtype=torch.bool)
    weights = {name: starting_weights(init, candidates, every) for name, init in BASELINES.items()}
    return {name: float(_expected(candidates, p, truth, len(images.classes), iou).nanmean()) for name, p in weights.items()}


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
    some candidate finds, and, with `coco`, COCO's precisions (`coco/AP`, …). Nothing where no true box is known.

    >>> import numpy as np, torch
    >>> from lvmdc import LSVM, LabelledBoxes
    >>> c = Candidates(torch.tensor([[3.0], [0.0], [0.0], [0.1]]), [2, 2], [[0, 0, 2, 2], [4, 0, 6, 2]] * 2)
    >>> truth = LabelledBoxes([0], [0], [[0, 0, 2, 2]])
    >>> images = ImageSet([np.zeros((2, 6), np.uint8)] * 2, ["cat"], boxes=truth)
    >>> measure(Detector(LSVM(C=10.0, init="uniform")).fit(c, images.table), c, images)["corloc"]
    1.0
    """
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
        raise ValueError("images must have true boxes to train with, but images.truth is None")
    found: Detector = clone(detector)
    assert found.learner is not None
    found.learner.set_params(init="uniform", n_init=1)
    # Precision and CorLoc order the boxes of one class: scores need not be probabilities for it, but all of them must be there.
    found.set_params(start="learner", calibration=0, min_score=0.0)
    found.begin(candidates, labels)
    for k in range(found.n_classes_):
        part, image, h = ground_truth_objects(candidates, truth, k)
        places = torch.full((len(image), found.n_classes_), -1, device=h.device)
        places[:, k] = h
        found.fit_class(part, labels[image.cpu()], k, places)
    return found
