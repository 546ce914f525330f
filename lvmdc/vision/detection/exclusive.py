"""The detector of images that show one class each: one latent problem over all classes, as in the paper."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from lvmdc.arrays import ArrayLike
from lvmdc.boxes import LabelledBoxes
from lvmdc.candidates import Candidates
from lvmdc.feature_maps import product
from lvmdc.learners import DISC
from lvmdc.learners.base import LatentLearner
from lvmdc.losses import OverlapLoss
from lvmdc.segments import segment_argmax, segment_max
from lvmdc.vision.detection.calibration import platt
from lvmdc.vision.detection.class_problem import as_table
from lvmdc.vision.detection.detector import NOTHING, Detector
from lvmdc.vision.detection.ground_truth import ground_truth_candidates


class ExclusiveDetector(Detector):
    """Finds the objects of images that show exactly one of K classes each.

    `Detector` asks for each class whether it is there, so that w must score the best candidate of every other image below 0; parts that
    other classes lack do that better than whole objects. Where every image shows one class, the classes compete instead: one latent problem
    with y in 0..K−1, Ψ(x, y, h) = φ(x, h) in the block of y, and the learner's loss Δ (the overlap loss where it has none). The score of a
    candidate for class k is its margin

        w_k·φ(x, h) − max_{k'≠k} max_h' w_k'·φ(x, h'),

    which is positive for the best candidate if k is predicted, and which `calibration` turns into a probability as in `Detector`.

    Args:
        learner: of which a copy learns; DISC where not given.
        overlap, min_score, max_boxes, calibration, verbose: as in `Detector`.

    >>> x = torch.tensor([[3.0, 0], [0, 0], [0, 3.0], [0, 0]])  # two images with two candidates each
    >>> c = Candidates(x, [2, 2], [[0, 0, 2, 2], [4, 0, 6, 2]] * 2)
    >>> detector = ExclusiveDetector(DISC(C=10.0)).fit(c, [[1, -1], [-1, 1]])
    >>> found = detector.locate(c, [[1, -1], [-1, 1]])
    >>> found.label.tolist(), found.box[:, 0].tolist(), detector.classify(c).tolist()
    ([0, 1], [0.0, 0.0], [0, 1])
    """

    def __init__(
        self,
        learner: LatentLearner | None = None,
        overlap: float = 0.3,
        min_score: float = 0.01,
        max_boxes: int | None = 20,
        calibration: int = 3,
        verbose: bool = False,
    ):
        super().__init__(learner, "learner", overlap=overlap, min_score=min_score, max_boxes=max_boxes, calibration=calibration)
        self.verbose = verbose

    def begin(self, candidates: Candidates, labels: ArrayLike) -> None:
        super().begin(candidates, labels)
        check_one_class_each(self._labels(candidates, labels))

    def fit(self, candidates: Candidates, labels: ArrayLike, h: ArrayLike | None = None) -> ExclusiveDetector:
        """Learn from labels (n, K): 1 for the class of the image, −1 for the others; h (n, K) as in `Detector.fit`."""
        self.begin(candidates, labels)
        self.fit_class(candidates, labels, 0, h)
        return self

    def fit_class(self, candidates: Candidates, labels: ArrayLike, k: int, h: ArrayLike | None = None) -> LatentLearner:
        """Learn all classes, after `begin`: they compete, so none is learned alone. h (n, K) as in `Detector.fit`."""
        from sklearn.exceptions import ConvergenceWarning

        y = self._labels(candidates, labels).argmax(dim=1)
        places = None if h is None else as_table(candidates, h, "h").gather(1, y[:, None])[:, 0]
        learner = self._make(1.0).fit(candidates, y, places)
        if float(learner.coef_.norm()) <= NOTHING * learner.C:
            warnings.warn("nothing was learned, w = 0: try a larger C", ConvergenceWarning, stacklevel=2)
        self.coef_[:, :-1] = learner.coef_.to(self.coef_)
        for each in range(self.n_classes_):
            self.learners_[each], self.history_[each] = learner, learner.history_
        self.calibration_ = self._calibrated(candidates, y)
        return learner

    def fit_boxes(self, candidates: Candidates, labels: ArrayLike, truth: LabelledBoxes) -> None:
        self.fit_class(candidates, labels, 0, ground_truth_candidates(candidates, truth, self.n_classes_))

    def scores(self, candidates: Candidates) -> Tensor:
        """(T, K): the margin of every candidate for every class."""
        return self._margins(candidates, super().scores(candidates))

    def _make(self, miss_cost: float) -> LatentLearner:
        made: LatentLearner = DISC() if self.learner is None else self.learner.clone()
        return made.set_params(loss=OverlapLoss() if made.loss is None else made.loss)

    def classify(self, candidates: Candidates) -> Tensor:
        """(n,) the class of each image."""
        return _best(candidates, super().scores(candidates)).argmax(dim=1)

    def _margins(self, candidates: Candidates, scores: Tensor) -> Tensor:
        best = _best(candidates, scores)
        two = best.topk(2, dim=1)
        others = torch.where(best == two.values[:, :1], two.values[:, 1:], two.values[:, :1])  # where two tie, both have the same
        return scores - others[candidates.sample]

    def _calibrated(self, candidates: Candidates, y: Tensor) -> Tensor:
        """(K, 2): a and b of `platt` for each class, each image scored by a w that did not learn from it; by the detector's own scores
        where a class has only one image. With h fixed where it was found, the problem is convex."""

        from sklearn.model_selection import StratifiedKFold

        def best(part: Candidates, margins: Tensor) -> Tensor:
            return _best(part, margins).double().cpu()

        scores = super().scores(candidates)
        held_out = best(candidates, self._margins(candidates, scores))  # (n, K)
        folds = min(self.calibration, int(y.bincount(minlength=self.n_classes_).min()))
        if folds >= 2:
            own = scores[torch.arange(len(scores), device=scores.device), y[candidates.sample]]
            found = candidates.index(segment_argmax(own, candidates.counts))
            quick = self._make(1.0).set_params(init="uniform", n_init=1, n_classes=self.n_classes_)
            for rest, out in StratifiedKFold(folds, shuffle=True, random_state=0).split(y.cpu(), y.cpu()):
                learn, index = (torch.from_numpy(part).to(y.device) for part in (rest, out))
                w = quick.clone().fit(candidates.subset(learn), y[learn], found[learn]).coef_
                part = candidates.subset(index)
                held_out[torch.from_numpy(out)] = best(part, self._margins(part, product(part.features, w)))
        return torch.stack([platt(held_out[:, k], y.cpu() == k) for k in range(self.n_classes_)])


def _best(candidates: Candidates, scores: Tensor) -> Tensor:
    """(n, K) the best score (T, K) of each image for each class."""
    return torch.stack([segment_max(column.contiguous(), candidates.counts) for column in scores.T], dim=1)


def check_one_class_each(table: Tensor) -> None:
    """Refuse labels (n, K) of images that show several classes or none, or of which that is unknown.

    >>> check_one_class_each(torch.tensor([[1, -1], [1, 1]]))
    Traceback (most recent call last):
    ValueError: ExclusiveDetector needs images that show exactly one class each, but image 1 shows 2; use Detector for such images
    """
    wrong = (((table == 1).sum(dim=1) != 1) | (table == 0).any(dim=1)).nonzero().flatten()
    if len(wrong):
        row = table[wrong[0]]
        unknown = " and has unknown labels" if bool((row == 0).any()) else ""
        reason = f"image {int(wrong[0])} shows {int((row == 1).sum())}{unknown}; use Detector for such images"
        raise ValueError(f"ExclusiveDetector needs images that show exactly one class each, but {reason}")
