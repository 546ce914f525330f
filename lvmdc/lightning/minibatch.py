"""What learning from mini-batches has in common: the training set, averaged weights, epochs, and checkpoints."""

from __future__ import annotations

import copy
import time
from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from lvmdc import distributed
from lvmdc.candidates import Candidates
from lvmdc.distributions import Conditional, ConditionalModel, LinearPrediction, NeuralPrediction, Prediction, score_dtype
from lvmdc.distributions.prediction import module_scores
from lvmdc.inference import best, best_of_class
from lvmdc.learners import LatentLearner
from lvmdc.lightning.averaged import AveragedWeights
from lvmdc.lightning.batches import Batch, TrainingSet, epoch_seed, seed_batches
from lvmdc.lightning.convergence import Convergence
from lvmdc.lightning.data import Samples
from lvmdc.lightning.module import CHECKPOINT_KEY, LatentModule
from lvmdc.lightning.networks import Network, made
from lvmdc.lightning.optimizers import Steps
from lvmdc.lightning.renamed import renamed_checkpoint
from lvmdc.objective import Objective, half_squares, slack


class MiniBatchModule(LatentModule):
    """Learns (11) from mini-batches of samples. A subclass gives `training_step`, which ends with `step_optimizers`.

    An epoch is a row of the history: (11) on all training samples. Measures, predictions and checkpoints are those of the averaged weights,
    since the last iterate has the noise of its batches. Over several ranks a batch consists of samples of all of them, and the steps are
    those of one process; what a network drops at random each rank draws for itself.

    Args:
        learner: DISC, SoftDISC, LSVM or Supervised, with its loss and hyperparameters.
        convergence: when to stop.
        prediction: a module from features (T, d) to scores (T, K), for P_w, or a function that makes one from d and K, such as `mlp`;
            linear in the learner's joint feature map where not given.
        conditional: likewise from the features of Φ (T, d') to scores (T, K), for P_θ; the learner's own where not given.
        average: step t counts as t^average in the average of linear parameters; None: the last iterate.
    """

    weights: AveragedWeights  # from `setup` or `load_learned` on
    samples: TrainingSet  # from `setup` on
    sparse = False  # whether the zeros of w count

    def __init__(
        self,
        learner: LatentLearner,
        config: dict[str, Any] | None,
        convergence: Convergence,
        prediction: Network | None = None,
        conditional: Network | None = None,
        average: float | None = 8.0,
    ):
        super().__init__(learner, config)
        name, prediction, conditional = type(learner).__name__, prediction or None, conditional or None  # an empty config group is none
        if not learner.supports_batches:
            raise ValueError(f"mini-batches train DISC, LSVM and Supervised; {name} alternates whole trainings, so use module=exact")
        if learner.n_init != 1:
            raise ValueError(
                f"learning from mini-batches takes one start, but n_init is {learner.n_init}; run it with several seeds instead"
            )
        if prediction is not None and learner.joint is not None:
            raise ValueError("prediction and the learner's joint both say how P_w scores: give one of them")
        if conditional is not None and not self.has_theta:
            raise ValueError(f"conditional is the P_θ of DISC, but the learner is {name}, which has none")
        if average is not None and average < 0:
            raise ValueError(f"average must be at least 0, or None, but it is {average}")
        self.convergence, self.average = convergence, average
        self._networks = (prediction, conditional)  # in a tuple: copies of them are trained, and they are no part of this module itself
        self.steps: dict[str, Steps] = {}  # the optimizers by what they move: p_w, p_theta, …

    @property
    def has_theta(self) -> bool:
        """Whether the learner has a P_θ; otherwise all mass is on h*."""
        return self.learner.has_theta

    @property
    def p_w(self) -> Prediction:
        """P_w as its optimizer moves it."""
        return self.weights.p_w

    @property
    def p_theta(self) -> ConditionalModel:
        """P_θ as its optimizer moves it."""
        assert self.weights.p_theta is not None
        return self.weights.p_theta

    def check_no_outer_iterations(self) -> None:
        """Refuse settings of DISC that only the outer iterations of the exact solver have."""
        if self.learner.needs_outer_iterations:
            settings = self.learner.get_params(deep=False)
            found = f"anneal is {settings['anneal']:g} and theta_solver {settings['theta_solver']!r}"
            raise ValueError(f"steps on mini-batches have no outer iterations to cool β in, nor Algorithm 2, but {found}; use module=exact")

    # ---- before the first step -----------------------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        super().setup(stage)
        new = not hasattr(self, "weights")
        if not new and not self.learns_features:
            self._check_input(self.training_samples().candidates)  # a checkpoint may have other features
        if stage == "fit" or new:
            train, learner = self.training_samples(), self.learner
            learner.n_classes = len(self.data.classes)
            self._make_networks(train.candidates.n_features, train.candidates.for_phi().n_features, learner.n_classes)
            given = learner.checked(train.candidates, train.y, h=train.h_for(learner))
            if self.has_theta:
                learner.begin_theta(given.candidates)
            start = learner.start_truth(given, learner.start_posterior(given))
            parts = (learner.loss_, learner.n_classes_, start, given.known, learner.memory_budget)
            self.samples = TrainingSet(given.candidates, given.y, *parts)
        if new:
            one = self.samples.candidates.subset([0])
            self._check_networks(one)
            size = self.learner.joint_.size(one)
            shape = (self.learner.n_classes_, -1) if self.learner.joint is None else (size,)
            self._make_weights(torch.zeros(size, dtype=score_dtype(one)).reshape(shape))

    def training_samples(self) -> Samples:
        """The training samples of this rank."""
        return self.data.train_with(self.learner)

    def _make_networks(self, n_features: int, n_phi: int, n_classes: int) -> None:
        """Networks that are made from the sizes of the data."""
        self.n_phi, (w, theta), seed = n_phi, self._networks, self.learner.seed
        self._networks = made(w, n_features, n_classes, seed), made(theta, n_phi, n_classes, seed + 1)
        if theta is not None:
            self.learner.set_params(conditional=self._networks[1])

    @torch.no_grad()
    def _check_networks(self, one: Candidates) -> None:
        networks = (self._networks[0], getattr(self.learner, "conditional", None))
        for name, network, seen in zip(("prediction", "conditional"), networks, (one, one.for_phi()), strict=True):
            if isinstance(network, nn.Module):
                columns = module_scores(copy.deepcopy(network).eval().to(seen.device), seen).shape[1]
                if columns != self.learner.n_classes_:
                    raise ValueError(f"{name} must score the {self.learner.n_classes_} classes of the data, but it scores {columns}")

    def _make_weights(self, w: Tensor) -> None:
        network = self._networks[0]
        p_w = NeuralPrediction(copy.deepcopy(network)) if isinstance(network, nn.Module) else LinearPrediction(w, self.learner.joint)
        # A copy: the learner's own is overwritten by the average, which is not where the optimizer stands.
        p_theta = copy.deepcopy(self.learner.model_).to(w.dtype) if self.has_theta else None
        self.weights = AveragedWeights(p_w, p_theta, self.average, self.sparse)

    @abstractmethod
    def make_optimizers(self) -> dict[str, Steps]:
        """The optimizers by what they move: `p_w`, `p_theta`, …"""

    def configure_optimizers(self) -> Any:
        self.steps = self.make_optimizers()
        return list(self.steps.values())

    def on_fit_start(self) -> None:
        self.samples = self.samples.to(self.device)

    def on_train_start(self) -> None:
        if not self.convergence.rows:
            self.convergence.origin = self.measure_objective()[0].value

    # ---- epochs and steps ----------------------------------------------------------------------------------------

    def on_train_epoch_start(self) -> None:
        self._started = time.perf_counter()
        seed_batches(self, self.learner.seed)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> int | None:
        """Seed dropout and the like, so that a resumed run draws the same; skip a run that has converged."""
        if self.convergence.converged:
            self.trainer.should_stop = True
            return -1
        if batch_idx == 0:  # not before: what loads the data draws, too
            torch.manual_seed(epoch_seed(self, self.learner.seed, self.global_rank))
        return None

    def moving(self) -> set[str]:
        """Which optimizers step now."""
        return set(self.steps)

    def step_optimizers(self) -> None:
        """A step of every optimizer in `moving`, and of its scheduler if that goes by steps."""
        found, moving = self.optimizers(), self.moving()
        for name, optimizer in zip(self.steps, found if isinstance(found, list) else [found], strict=True):
            if name in moving:
                optimizer.step()
                self._step_scheduler(name, "step")

    def _step_scheduler(self, name: str, interval: str, *values: float) -> None:
        scheduled = self.steps[name].get("lr_scheduler")
        if scheduled is not None and scheduled["interval"] == interval:
            scheduled["scheduler"].step(*(values if "monitor" in scheduled else ()))

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.weights.update(*self.moving())
        if self.trainer.is_last_batch:  # not after the epoch: a checkpoint that is written after validation must have its row
            self.end_epoch()

    def end_epoch(self) -> None:
        """Measure (11) on all samples, log it, and decide whether to go on."""
        moved = self.moving()
        objective, measures, passes = self.epoch_results()
        self.log_row(self.convergence.add(objective, measures, passes, time.perf_counter() - self._started))
        for name in moved:
            self._step_scheduler(name, "epoch", objective.value)
        self.trainer.should_stop = self.trainer.should_stop or self.convergence.converged

    def epoch_results(self) -> tuple[Objective, dict[str, float], int]:
        """(11) and the measures at the end of an epoch, and its passes over the features, to learn and to measure."""
        return *self.measure_objective(), 4 if self.has_theta else 2

    @torch.no_grad()
    def measure_objective(self) -> tuple[Objective, dict[str, float]]:
        """(11) by its terms for the averaged weights on the samples of all ranks, and the means of the prediction's expected loss (8), its
        class error and the posterior's entropy; one pass over the features in chunks."""
        p_w, p_theta, whole = self.weights.prediction(), self.weights.conditional(), self.samples.candidates
        sums = torch.zeros(5, dtype=torch.float64)
        for samples in self.samples.chunks():
            x = samples.candidates
            scores = p_w.scores(x)
            p = samples.impute(scores) if p_theta is None else samples.posterior(p_theta)
            y_hat, rows = best(x, scores)
            parts = (
                self.slacks(samples, scores, p),
                samples.loss.diversity(p),
                samples.loss.expected_at(p, y_hat, rows),
                y_hat != samples.y,
                Conditional(x, samples.y, p).entropy(),
            )
            sums += torch.stack([part.double().sum() for part in parts]).cpu()
        xi, diversity, loss, error, entropy = (distributed.total(whole, sums) / distributed.n_samples(whole)).tolist()
        one = self.learner
        theta_norm = 0.0 if p_theta is None else one.J * float(half_squares(p_theta))
        objective = Objective(float(self.w_norm(p_w)), theta_norm, xi, diversity, one.C, one.beta)
        return objective, {"loss": loss, "error": error, "entropy": entropy}

    def slacks(self, samples: Batch, scores: Tensor, p: Tensor) -> Tensor:
        """(n,): ξ_i (9) for the scores (T, K) under a posterior p (T,)."""
        return slack(samples.candidates, scores, samples.loss.expected_loss(p), samples.y, samples.known)

    def w_norm(self, p_w: Prediction) -> Tensor:
        """½‖w‖², over all parameters of a network."""
        return half_squares(p_w)

    def on_train_end(self) -> None:
        if self.weights.linear_w and self.convergence.rows:  # then the learner counts as fitted
            self.learner.load_state_dict(self.learned())
            if self.has_theta:
                self.learner.model_ = self.weights.conditional()
        if self.trainer.is_global_zero:
            self.convergence.warn_if_unfinished()

    # ---- prediction ----------------------------------------------------------------------------------------------

    def _check_input(self, candidates: Candidates) -> None:
        if not hasattr(self, "weights"):
            raise ValueError(f"this {type(self).__name__} has learned nothing yet: train it, or load a checkpoint, before it predicts")
        expected = self.learner.n_features_in_
        if candidates.n_features != expected:
            raise ValueError(f"candidates must have {expected} features, as in training, but they have {candidates.n_features}")

    def prediction(self, candidates: Candidates) -> Prediction:
        self._check_input(candidates)
        return self.weights.prediction()

    @torch.no_grad()
    def posterior(self, candidates: Candidates, y: Tensor) -> Tensor:
        self._check_input(candidates)
        labels, p_theta = candidates.outputs(y, self.learner.n_classes_), self.weights.conditional()
        if p_theta is not None:
            return p_theta(candidates, labels).p
        scores = self.weights.prediction().scores(candidates)
        return torch.zeros_like(scores[:, 0]).index_fill(0, best_of_class(candidates, scores, labels), 1.0)

    def history(self) -> list[dict[str, float]]:
        return self.convergence.rows

    # ---- checkpoints ---------------------------------------------------------------------------------------------

    def learned(self) -> dict[str, Any]:
        """Both distributions and the history, in the form of the learner's own `state_dict`; `coef` is None for a network."""
        sizes = {"n_classes": self.learner.n_classes_, "n_features": self.learner.n_features_in_, "n_phi": self.n_phi}
        return {"learner": type(self.learner).__name__, **sizes, **self.weights.learned(), **self.convergence.state()}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        renamed_checkpoint(checkpoint)
        written = checkpoint[CHECKPOINT_KEY]
        if written["module"] != type(self).__name__:
            raise ValueError(f"the checkpoint was written by {written['module']}, but this is {type(self).__name__}; see module=")
        self.load_learned(written["learned"])  # Lightning restores the optimizers next

    def load_learned(self, learned: dict[str, Any]) -> None:
        network = self._networks[0] is not None
        if (learned["coef"] is None) != network:
            there, here = ("linear", "a network") if network else ("a network", "linear")
            raise ValueError(f"the P_w of the checkpoint is {there}, but here it is {here}; see prediction=")
        new = not hasattr(self, "weights")
        for name, own in () if new else (("n_classes", self.learner.n_classes_), ("n_features", self.learner.n_features_in_)):
            if learned[name] != own:
                raise ValueError(f"the checkpoint has {name} = {learned[name]}, but the data have {own}")
        if new:
            self._make_networks(learned["n_features"], learned.get("n_phi", learned["n_features"]), learned["n_classes"])
        self.learner.load_state_dict(learned)
        if new:
            self._make_weights(next(iter(learned["prediction"].values())))
        self.weights.load_learned(learned)
        self.convergence.load(learned)
