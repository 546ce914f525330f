"""DetectorModule: a detector of several classes under Lightning; one epoch learns one class."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.distributions import Prediction
from lvmdc.learners import LatentLearner
from lvmdc.lightning.data import LatentDataModule, Samples
from lvmdc.lightning.module import CHECKPOINT_KEY, LatentModule
from lvmdc.reporting.glossary import tag
from lvmdc.vision.datasets.images import ImageSet
from lvmdc.vision.detection import Detector, ExclusiveDetector, baselines, ground_truth_candidates, measure, supervised
from lvmdc.vision.detection.exclusive import check_one_class_each


class DetectorModule(LatentModule):
    """Learns all objects of several classes in an image from the image's labels, one class per epoch: a killed run loses at most one class.
    An `ExclusiveDetector` learns all classes in one epoch.

    Args:
        learner: the method that each class is learned by; its loss compares candidates.
        config: the composed configuration as plain data.
        detector: the settings of the detector.
        iou: overlap that CorLoc and average precision ask for.
        supervised: train a second detector with ground-truth boxes, to compare with.
        coco: COCO's average precision, too.
        pseudo_score: probability from which the pseudo-labels have more boxes than the best of each label; None: the best alone.
    """

    def __init__(
        self,
        learner: LatentLearner,
        config: dict[str, Any] | None = None,
        detector: Detector | None = None,
        iou: float = 0.5,
        supervised: bool = True,
        coco: bool = False,
        pseudo_score: float | None = None,
    ):
        super().__init__(learner, config)
        if learner.uses_known_h:
            raise ValueError("method=supervised needs ground-truth boxes; module.supervised=true trains that beside another method")
        if pseudo_score is not None and not 0 <= pseudo_score <= 1:
            raise ValueError(f"module.pseudo_score must be a probability, or null, but it is {pseudo_score}")
        self.detector = Detector() if detector is None else detector
        self.detector.learner = learner
        self.iou, self.supervised, self.coco, self.pseudo_score = iou, supervised, coco, pseudo_score
        # NOTE: ModelCheckpoint writes nothing unless an optimizer steps, so one steps over a parameter that nothing reads.
        self.counter = torch.nn.Parameter(torch.zeros(1))

    def check_data(self, data: LatentDataModule) -> None:
        if not isinstance(data.items, ImageSet):
            raise ValueError("a detector needs images, but these data make their candidates themselves; use module=exact")
        if isinstance(self.detector, ExclusiveDetector):
            check_one_class_each(data.items.table)
        elif len(data.prior_strengths) > 1:
            raise ValueError("data.prior_strength must be a number with module=detector; module=exclusive_detector can choose it")

    def check_over_ranks(self) -> None:
        raise ValueError("a detector learns on one device, but the trainer, or torchrun, asks for several: use trainer=cpu or trainer=gpu")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD([self.counter], lr=0.0)

    # ---- learning ------------------------------------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        super().setup(stage)
        self.trainer.fit_loop.max_epochs = len(self.classes)

    def on_fit_start(self) -> None:
        """After the device is known."""
        self._train = self.data.train_with(self.learner).to(self.device)
        self.detector.begin(self._train.candidates, images_of(self._train).table)
        if self._restored is not None:
            self.load_learned(self._restored)

    _restored: dict[str, Any] | None = None

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self._restored = checkpoint[CHECKPOINT_KEY]["learned"]

    def training_step(self, batch: Tensor, batch_idx: int) -> None:
        """The next class that has not been learned, or all of them."""
        before, train = self._left(), self._train
        if before:
            self.detector.fit_class(train.candidates, images_of(train).table, before[0], known_boxes(train))
        left = self._left()
        for k in before:
            if k not in left:
                self._log_class(k)
        self.log_row(self.history()[-1] | {"classes_left": float(len(left))})
        self.optimizers().step()  # type: ignore[union-attr]
        if not left:
            self.trainer.should_stop = True

    def _left(self) -> list[int]:
        """The classes that have not been learned."""
        return [k for k in range(len(self.classes)) if k not in self.detector.history_]

    def _log_class(self, k: int) -> None:
        """The curves of class k, by iteration."""
        for logger in self.loggers:
            for row in self.detector.history_[k]:
                values = {tag("train", name, self.classes[k]): float(v) for name, v in row.items() if name != "iteration"}
                logger.log_metrics(values, step=int(row["iteration"]))

    def history(self) -> list[dict[str, float]]:
        return mean_history(self.detector.history_)

    # ---- prediction ----------------------------------------------------------------------------------------------

    def prediction(self, candidates: Candidates) -> Prediction:
        raise NotImplementedError("a detector predicts boxes of all classes: see DetectorModule.detector")

    def posterior(self, candidates: Candidates, y: Tensor) -> Tensor:
        raise NotImplementedError("a detector has a P_θ for each class: see Detector.learners_")

    def measure(self, samples: Samples) -> dict[str, float]:
        """CorLoc, average precision, and the share of the objects that proposals find; where no ground-truth box is known, the class error
        of images that show one class each."""
        candidates, images = samples.candidates.to(self.device), images_of(samples)
        found = measure(self.detector, candidates, images, self.iou, self.coco)
        if not found and isinstance(self.detector, ExclusiveDetector):
            found["error"] = float((self.detector.classify(candidates).cpu() != images.y).double().mean())
        return found

    def comparisons(self) -> dict[str, dict[str, float]]:
        """The same detector trained with ground-truth boxes, and `baselines`; nothing without a test part."""
        train, test = self.data.train, self.data.test
        assert train is not None
        if test is None:
            return {}
        guesses = baselines(test.candidates, images_of(test), self.iou, self.data.prior)
        found = {f"test_{name}": {"corloc": value} for name, value in guesses.items()}
        if not self.supervised or not bool(images_of(train).boxed.all()):
            return found
        candidates = train.candidates.to(self.device)
        best = supervised(self.detector, candidates, images_of(train))
        parts = {"train_supervised": (candidates, train), "test_supervised": (test.candidates.to(self.device), test)}
        return {name: measure(best, c, images_of(part), self.iou, self.coco) for name, (c, part) in parts.items()} | found

    # ---- checkpoints ---------------------------------------------------------------------------------------------

    def learned(self) -> dict[str, Any]:
        return self.detector.state_dict()

    def load_learned(self, learned: dict[str, Any]) -> None:
        for name, columns in (("coef", None), ("calibration", 2)):
            table = learned[name]
            shape = tuple(table.shape) if isinstance(table, Tensor) else ()
            if len(shape) != 2 or shape[0] != len(self.classes) or shape[1] < 2 or (columns is not None and shape[1] != columns):
                raise ValueError(f"{name} must have a row for each of the {len(self.classes)} classes, but it has shape {shape}")
            if not table.is_floating_point() or not bool(table.isfinite().all()):
                raise ValueError(f"{name} must hold finite numbers, but it does not")
        if type(learned["bias"]) not in (int, float):
            raise ValueError(f"bias must be a number, but it is {str(learned['bias'])[:60]!r}")
        self.detector.load_state_dict(learned)

    def check_ready(self) -> None:
        lacking = [name for k, name in enumerate(self.classes) if k not in self.detector.history_]
        if lacking:
            raise ValueError(f"it has not learned the class {lacking[0]!r} yet: resume its training first")
        probe = Candidates(torch.zeros(1, self.detector.n_features_in_), [1], torch.tensor([[0.0, 0.0, 1.0, 1.0]]))
        self.detector.predict(probe)


def images_of(samples: Samples) -> ImageSet:
    """The images of samples that are images."""
    assert isinstance(samples.items, ImageSet)
    return samples.items


def known_boxes(samples: Samples) -> Tensor | None:
    """(n, K) the candidates nearest to the boxes that may be trained with, −1 where h must be found; None: everywhere."""
    images = images_of(samples)
    if samples.shown is None or images.truth is None:
        return None
    truth = images.truth[samples.shown[images.truth.image]]
    return ground_truth_candidates(samples.candidates, truth, len(images.classes))


def mean_history(histories: dict[int, list[dict[str, float]]]) -> list[dict[str, float]]:
    """One row per iteration: the means over the classes, of which those that have ended keep their last row.

    >>> mean_history({0: [{"iteration": 1, "objective": 2.0}], 1: [{"iteration": 1, "objective": 4.0}, {"iteration": 2, "objective": 3.0}]})
    [{'iteration': 1, 'objective': 3.0}, {'iteration': 2, 'objective': 2.5}]
    """
    rows = []
    for t in range(max(map(len, histories.values()), default=0)):
        here = [history[min(t, len(history) - 1)] for history in histories.values()]
        shared = [name for name in here[0] if name != "iteration" and all(name in row for row in here)]
        rows.append({"iteration": t + 1} | {name: sum(row[name] for row in here) / len(here) for name in shared})
    return rows
