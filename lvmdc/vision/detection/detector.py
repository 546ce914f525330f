"""The detector: one latent problem a class, learned from the labels of images."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import torch
from torch import Tensor
from tqdm import tqdm

from lvmdc.arrays import ArrayLike
from lvmdc.boxes import LabelledBoxes, suppressed
from lvmdc.candidates import Candidates
from lvmdc.learners.base import LatentLearner
from lvmdc.learners.estimator import Estimator
from lvmdc.segments import segment_argmax
from lvmdc.vision.detection.calibration import as_probability
from lvmdc.vision.detection.class_problem import ClassProblem, PresenceMap, as_table, class_learner
from lvmdc.vision.detection.contrast import Contrast
from lvmdc.vision.detection.ground_truth import ground_truth_objects

NOTHING = 1e-6  # ‖w‖ grows with C at least as long as slack is left: this share of it is w = 0 but for rounding


class Detector(Estimator):
    """Finds the objects of K classes in images, from labels that say which classes an image shows, not where or how many.

    Each class k is a problem of its own over all images, y = 1 where the label says that k is there, y = 0 where it is not, and h the
    candidate that shows it (`PresenceMap`). With the learner's loss Δ' on h,

        Δ(1, h, 1, h') = Δ'(h, h'),   Δ(1, ·, 0, ·) = m (missed),   Δ(0, ·, 1, ·) = 1 (false),   Δ(0, ·, 0, ·) = 0,

    so that the slack (9) of an image without k and of one with it are

        ξ_i = max(0, 1 + max_h w·φ(x_i, h)),    ξ_i = max(m, max_h [w·φ(x_i, h) + Σ_h' p_i(h') Δ'(h', h)]) − max_h w·φ(x_i, h):

    all of the one's candidates are background, and of the other's the best must score above 0, and above what does not overlap it. Any
    learner of h solves it: DISC with P_θ(h | x, 1) over the candidates, LSVM, ILSVM. Images whose label of k is 0, unknown, are left
    out of problem k; those without k are repeated until they are as many as those with it, or to predict k everywhere would be a point that
    learners do not leave. A candidate's score for class k is w_k·φ; what it predicts is what non-maximum suppression leaves of all of them,
    with the probability that an image whose best candidate has that score shows the class (`calibrate`).

    Args:
        learner: of which a copy is trained for each class, its `loss` being Δ' (the overlap loss where it has none); DISC where not given.
        bias: s of `PresenceMap`.
        start: where h starts: `contrast`, where images with a class differ from those without (see `Contrast`), and, with an `n_init`
            of the learner above 1, from its own starts too; or `learner`: from its own alone.
        miss_cost: m, or `balanced`: twice as many as there are images without the class for each image with it, at least 2. With m = 1
            nothing is gained by a box that may be in the wrong place, and w = 0 is a point that learners of one h do not leave. Places
            count from the score m on: with a large m and a C that does not reach it, w tells images apart and finds no boxes.
        overlap: intersection over union above which the weaker of two boxes of a class is suppressed.
        min_score: the probability below which nothing is predicted; 0.01 keeps all that may count.
        max_boxes: of an image and a class, at most.
        calibration: parts that the images are divided into to learn how scores become probabilities: each is scored by a w that learned
            from the others, with h where the detector found it. 0: by the detector's own scores of what it learned from.
        verbose: show a progress bar over the classes.

    >>> from lvmdc import DISC
    >>> x = torch.tensor([[3.0, 0], [0, 0], [0, 3.0], [0, 0], [3.0, 0], [0, 3.0]])  # three images with two candidates each
    >>> boxes = [[0, 0, 2, 2], [4, 0, 6, 2]] * 3
    >>> labels = [[1, -1], [-1, 1], [1, 1]]
    >>> detector = Detector(DISC(C=10.0, init="uniform")).fit(Candidates(x, [2, 2, 2], boxes), labels)
    >>> found = detector.predict(Candidates(x, [2, 2, 2], boxes))
    >>> sure = found[found.score > 0.5]
    >>> sure.image.tolist(), sure.label.tolist(), sure.box[:, 0].tolist()
    ([0, 1, 2, 2], [0, 1, 0, 1], [0.0, 0.0, 0.0, 4.0])
    """

    def __init__(
        self,
        learner: LatentLearner | None = None,
        start: Literal["contrast", "learner"] = "contrast",
        bias: float = 1.0,
        miss_cost: float | Literal["balanced"] = 2.0,
        overlap: float = 0.3,
        min_score: float = 0.01,
        max_boxes: int | None = 20,
        calibration: int = 3,
        verbose: bool = False,
    ):
        self.learner, self.start, self.bias, self.miss_cost = learner, start, bias, miss_cost
        self.overlap, self.min_score, self.max_boxes, self.calibration, self.verbose = overlap, min_score, max_boxes, calibration, verbose

    _contrast: Contrast | None = None  # made once for all classes

    # ---- learning ------------------------------------------------------------------------------------------------

    def fit(self, candidates: Candidates, labels: ArrayLike, h: ArrayLike | None = None) -> Detector:
        """Learn from labels (n, K): 1 a class is there, −1 it is not, 0 unknown; h (n, K) is the candidate where it is known, else −1."""
        self.begin(candidates, labels)
        for k in tqdm(range(self.n_classes_), desc="classes", unit="class", disable=not self.verbose):
            self.fit_class(candidates, labels, k, h)
        self._contrast = None
        return self

    def begin(self, candidates: Candidates, labels: ArrayLike) -> None:
        """Check everything and make ready for `fit_class`; what was learned before is forgotten."""
        self.__dict__.pop("coef_", None)
        if self.start not in ("contrast", "learner"):
            raise ValueError(f"start must be contrast or learner, but it is {self.start!r}")
        if isinstance(self.miss_cost, str) and self.miss_cost != "balanced":
            raise ValueError(f"miss_cost must be positive, or 'balanced', but it is {self.miss_cost!r}")
        if self.calibration < 0 or self.calibration == 1:
            raise ValueError(f"calibration must be 0, or parts to divide the images into, at least 2, but it is {self.calibration}")
        table = self._labels(candidates, labels)
        if candidates.boxes is None:
            raise ValueError("candidates must have boxes, but candidates.boxes is None")
        for k in range(table.shape[1]):
            for value, what in ((1, "shows"), (-1, "lacks")):
                if not bool((table[:, k] == value).any()):
                    raise ValueError(f"labels must have an image that {what} class {k}, or nothing can be learned of it, but none does")
        self._make(1.0 if self.miss_cost == "balanced" else float(self.miss_cost)).check_parameters()
        self.n_classes_, self.n_features_in_ = table.shape[1], candidates.n_features
        self.coef_ = torch.zeros(self.n_classes_, candidates.n_features + 1, dtype=torch.float64, device=candidates.device)
        self.calibration_ = torch.tensor([1.0, 0.0], dtype=torch.float64).repeat(self.n_classes_, 1)
        self._contrast = None
        self.learners_: dict[int, LatentLearner] = {}
        self.history_: dict[int, list[dict[str, float]]] = {}

    def fit_class(self, candidates: Candidates, labels: ArrayLike, k: int, h: ArrayLike | None = None) -> LatentLearner:
        """Learn class k alone, after `begin`; its learner."""
        from sklearn.exceptions import ConvergenceWarning

        column = self._labels(candidates, labels)[:, k]
        there, lack = int((column == 1).sum()), int((column == -1).sum())
        cost = max(2.0, 2.0 * lack / there) if self.miss_cost == "balanced" else float(self.miss_cost)
        places = None if h is None else as_table(candidates, h, "h")[:, k]
        problem = ClassProblem(self._make(cost), candidates, column)
        learner = problem.fit(places, self._start(candidates, column))
        if float(learner.coef_.norm()) <= NOTHING * learner.C:
            warnings.warn(
                f"class {k} learned nothing, w = 0: try miss_cost above {cost:g}, other starts (init, n_init) or a larger C",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.learners_[k], self.history_[k], self.coef_[k] = learner, learner.history_, learner.coef_.to(self.coef_)
        self.calibration_[k] = problem.calibrated(self.scores(candidates)[:, k], self.calibration)
        return learner

    def fit_boxes(self, candidates: Candidates, labels: ArrayLike, truth: LabelledBoxes) -> None:
        """Learn all classes with every true box known, after `begin`: the upper bound that weak supervision is compared with."""
        table = self._labels(candidates, labels)
        for k in range(self.n_classes_):
            part, image, h = ground_truth_objects(candidates, truth, k)
            places = torch.full((len(image), self.n_classes_), -1, device=h.device)
            places[:, k] = h
            self.fit_class(part, table[image], k, places)

    def _start(self, candidates: Candidates, column: Tensor) -> Tensor | None:
        if self.start == "learner":
            return None
        if self._contrast is None or self._contrast.candidates is not candidates:
            self._contrast = Contrast(candidates)
        return self._contrast.candidates_of(column)

    def _make(self, miss_cost: float) -> LatentLearner:
        return class_learner(self.learner, miss_cost, self.bias)

    # ---- using ---------------------------------------------------------------------------------------------------

    def scores(self, candidates: Candidates) -> Tensor:
        """(T, K): w_k·Ψ(x, 1, h) of every candidate for every class."""
        from sklearn.exceptions import NotFittedError

        if not hasattr(self, "coef_"):
            raise NotFittedError("this Detector is not fitted yet: call fit before it predicts")
        if candidates.n_features != self.n_features_in_:
            raise ValueError(f"candidates must have {self.n_features_in_} features, as in fit, but they have {candidates.n_features}")
        return PresenceMap(self.bias).present_scores(candidates, self.coef_.to(candidates.device))

    def probabilities(self, candidates: Candidates) -> Tensor:
        """(T, K): that an image whose best candidate has this one's score shows the class."""
        return as_probability(self.scores(candidates), self.calibration_)

    def predict(self, candidates: Candidates) -> LabelledBoxes:
        """The boxes of all classes, with probabilities as scores, after non-maximum suppression."""
        assert candidates.boxes is not None
        scores = self.scores(candidates)
        rows, label = (self.probabilities(candidates) >= self.min_score).nonzero(as_tuple=True)
        # Suppressed by the scores themselves: high probabilities are equal in single precision.
        found = suppressed(
            LabelledBoxes(candidates.sample[rows], label, candidates.boxes[rows], scores[rows, label]), self.overlap, self.max_boxes
        )
        assert found.score is not None
        return LabelledBoxes(found.image, found.label, found.box, as_probability(found.score, self.calibration_[found.label.cpu()]))

    def locate(self, candidates: Candidates, labels: ArrayLike) -> LabelledBoxes:
        """The best box of each class in each image that is labelled with it: what CorLoc measures."""
        assert candidates.boxes is not None
        there = self._labels(candidates, labels) == 1
        scores = self.scores(candidates)
        parts = []
        for k in range(self.n_classes_):
            image = there[:, k].nonzero().flatten()
            rows = segment_argmax(scores[:, k], candidates.counts)[image]
            p = as_probability(scores[rows, k], self.calibration_[k])
            parts.append(LabelledBoxes(image, torch.full_like(image, k), candidates.boxes[rows], p))
        return LabelledBoxes.concat(parts)

    def _labels(self, candidates: Candidates, labels: ArrayLike) -> Tensor:
        table = as_table(candidates, labels, "labels")
        if hasattr(self, "coef_") and table.shape[1] != self.n_classes_:
            raise ValueError(f"labels must have {self.n_classes_} classes, as in fit, but they have {table.shape[1]}")
        return table

    # ---- keeping -------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """What was learned of the classes that are done, as tensors and plain data."""
        histories = {str(k): [dict(row) for row in rows] for k, rows in self.history_.items()}
        return {"coef": self.coef_, "bias": self.bias, "calibration": self.calibration_, "history": histories}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` gave, to predict, or to go on with the other classes after `begin`."""
        if hasattr(self, "coef_") and state["coef"].shape != self.coef_.shape:
            raise ValueError(f"the state has weights of shape {tuple(state['coef'].shape)}, but the data ask for {tuple(self.coef_.shape)}")
        if "calibration" not in state:
            raise ValueError("the state must say how scores become probabilities (calibration), but it does not: train again")
        self.coef_, self.bias, self.calibration_ = state["coef"].clone(), state["bias"], state["calibration"].clone()
        self.n_classes_, self.n_features_in_ = self.coef_.shape[0], self.coef_.shape[1] - 1
        self.history_ = {int(k): [dict(row) for row in rows] for k, rows in state["history"].items()}
        self.learners_, self._contrast = {}, None
