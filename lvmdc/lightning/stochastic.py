"""The stochastic solver under Lightning: mini-batches of samples, for large sets and for neural networks."""

from __future__ import annotations

import copy
import time
from typing import Any

import torch
from torch import Tensor, nn

from lvmdc.candidates import Candidates
from lvmdc.distributions import LinearPrediction, NeuralPrediction, Prediction, score_dtype
from lvmdc.inference import best_of_class
from lvmdc.learners import DISC, LatentLearner, SoftDISC, Supervised
from lvmdc.lightning import optimizers as optimisers
from lvmdc.lightning.averaged import Pair
from lvmdc.lightning.batches import BatchObjective, TrainingSet, batch_objective, delta_at
from lvmdc.lightning.convergence import DualEpochs, Epochs
from lvmdc.lightning.data import Samples, epoch_seed, seed_batches
from lvmdc.lightning.dual import DualSteps
from lvmdc.lightning.module import CHECKPOINT_KEY, LatentModule
from lvmdc.lightning.networks import Network, made
from lvmdc.lightning.optimizers import OptimizerFactory, SchedulerFactory, Stepper
from lvmdc.lightning.sparse import Norm
from lvmdc.lightning.turns import ThetaTurn, Turns
from lvmdc.lightning.validation import check_dual, check_iterations, check_kind, check_networks, check_norm, check_settings, check_sizes


class StochasticModule(LatentModule):
    """Learns (11) by a step on w and a step on θ for every mini-batch; P_w and P_θ may be neural networks.

    A batch gives ½‖w‖² + C/|B| Σ_i ξ_i, of which w takes a step with θ held, and, for DISC, J/2 ‖θ‖² + C/|B| Σ_i (B_i − β H_i), of which θ
    takes a subgradient step with w held; see `BatchObjective`. An epoch is a row of the history: (11) on all training samples.

    A linear P_w steps in the dual of (14), without a rate: see `DualSteps`. h* waits for it as it does in the exact solver, as `cccp` says,
    and the gap of (14) is proven: see `DualEpochs`. A log-linear P_θ is solved whenever w is: see `Turns`. Where either is a network or has
    an optimizer of one's own, under another norm, or with `dual=False`, both take subgradient steps at the same (w, θ): with
    `theta_bound=slack` the two are one subgradient step on (11). A linear w then has rate 1/(t + R√C), and a log-linear P_θ moves by Adam,
    for the reasons that `lvmdc.lightning.optimizers` gives. With `dual=True` a P_θ that is a network has its turns, too. What is measured,
    predicted with and kept is the average over the last steps, since the last iterate has the noise of its batches.

    Over several ranks a batch is of the samples of all of them, and the steps are those of one process; what a network drops at random
    each rank draws for itself.

    Args:
        learner: DISC, SoftDISC, LSVM or Supervised, with its loss and hyperparameters.
        optimizer_w: makes the optimizer of w from its parameters; likewise `optimizer_theta`.
        scheduler: makes the scheduler of an optimizer's rate, for both optimizers; it steps every epoch. Dual steps have no rate, and θ
            has none where it is solved.
        prediction: a module that maps features (T, d) to scores (T, K), for P_w, or what makes one from d and K, such as `mlp`; linear in
            the learner's joint feature map where not given.
        conditional: likewise from the features of Φ (T, d') to scores (T, K), for P_θ; the learner's own where not given.
        warmup_epochs: where w takes subgradient steps, how long h* is held at the learner's `init`, as in the first round of CCCP, before
            it follows w; θ waits as long.
        patience: where w takes subgradient steps, over how many epochs the objective is averaged to tell whether it still changes by more
            than C·ε; see `Epochs`.
        average: how much later steps count in the average of linear parameters, step t as t^average; None: the last iterate.
        norm: in place of ½‖w‖² in (11), `l1` or `group`, see `norm_value`. w then moves by `DualAveraging`, which makes exact zeros, and
            its average is zero where the last iterate is; `scheduler` is for θ alone.
        dual: whether w takes dual steps, for a linear P_w under `l2` without an `optimizer_w`; None: where it can, and θ needs no
            optimizer.
    """

    turns: Turns | None = None  # of w and θ, where w steps in the dual
    steps_alone = True  # no part of learning is the exact solver's

    def __init__(
        self,
        learner: LatentLearner,
        config: dict[str, Any] | None = None,
        optimizer_w: OptimizerFactory | None = None,
        optimizer_theta: OptimizerFactory | None = None,
        scheduler: SchedulerFactory | None = None,
        prediction: Network | None = None,
        conditional: Network | None = None,
        warmup_epochs: int = 1,
        patience: int = 5,
        average: float | None = 8.0,
        norm: Norm = "l2",
        dual: bool | None = None,
    ):
        super().__init__(learner, config)
        prediction, conditional = prediction or None, conditional or None  # a group that is empty says none
        check_settings(learner, prediction, conditional, warmup_epochs, patience, average)
        check_norm(norm, learner, prediction, optimizer_w, scheduler)
        if self.steps_alone:
            check_iterations(learner)
        self.optimizers_given, self.scheduler = (optimizer_w, optimizer_theta), scheduler
        self.warmup_epochs, self.average, self.norm = warmup_epochs, average, norm
        self._networks = (prediction, conditional)  # in a tuple: copies of them are trained, and they are no part of this module itself
        self.pair: Pair | None = None
        self.steppers: list[Stepper] = []
        self.epochs: Epochs = Epochs(learner.C * learner.tol, patience, warmup_epochs)
        self._theta_turn = self._how_theta_learns()
        if self._dual_can and self._theta_turn != "steps" if dual is None else dual:
            check_dual(learner, scheduler, self._dual_can, self._theta_turn == "steps")
            self.epochs = DualEpochs(learner.C * learner.tol, learner.cccp)

    def _how_theta_learns(self) -> ThetaTurn:
        """Where w steps in the dual."""
        if not isinstance(self.learner, DISC) or self.learner.conditional == "uniform":
            return None
        own = self._networks[1] is not None or self.optimizers_given[1] is not None
        return "steps" if own or self.learner.conditional != "log_linear" else "solved"

    @property
    def _dual_can(self) -> bool:
        """Whether w can step in the dual of (14)."""
        own = self._networks[0] is not None or self.optimizers_given[0] is not None
        return not own and self.norm == "l2" and not isinstance(self.learner, SoftDISC)

    # ---- making ready --------------------------------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        super().setup(stage)
        if self.pair is not None:
            self._check_fits()
        if stage == "fit" or self.pair is None:
            train, learner = self._to_learn_from(), self.learner
            learner.n_classes = len(self.data.classes)
            self._make_networks(train.candidates.n_features, train.candidates.for_phi().n_features, learner.n_classes)
            given = learner.checked(train.candidates, train.y, h=train.h if isinstance(learner, Supervised) else None)
            if isinstance(learner, DISC):
                learner.begin_theta(given.candidates)
            start = learner.start_truth(given.candidates, learner.start_posterior(given))
            parts = (learner.loss_, learner.n_classes_, start, given.known, learner.memory_budget)
            self.samples = TrainingSet(given.candidates, given.y, *parts)
        if self.pair is None:
            one = self.samples.candidates.subset([0])
            check_networks(one, self.learner.n_classes_, self._networks[0], getattr(self.learner, "conditional", None))
            size = self.learner.joint_.size(one)
            shape = (self.learner.n_classes_, -1) if self.learner.joint is None else (size,)
            self.pair = self._make_pair(torch.zeros(size, dtype=score_dtype(one)).reshape(shape))
        if stage == "fit" and isinstance(self.epochs, DualEpochs):
            before, dual = self.turns, DualSteps(self.samples, self.learner.joint_, self.learner.C)
            self.turns = Turns(self.learner, dual, self.epochs, self._theta_turn)
            if before is not None:  # trained once more
                dual.load(before.dual.state())

    def _to_learn_from(self) -> Samples:
        train = self.data.train
        assert train is not None
        return train

    def _check_fits(self) -> None:
        self._trained(self._to_learn_from().candidates)  # refuses data of other features than were learned from

    def _make_networks(self, n_features: int, n_phi: int, n_classes: int) -> None:
        """Those that wait for the sizes of the data."""
        self.n_phi, (w, theta), seed = n_phi, self._networks, self.learner.seed
        self._networks = made(w, n_features, n_classes, seed), made(theta, n_phi, n_classes, seed + 1)
        if theta is not None:
            self.learner.set_params(conditional=self._networks[1])

    def _make_pair(self, w: Tensor) -> Pair:
        network = self._networks[0]
        p_w = NeuralPrediction(copy.deepcopy(network)) if isinstance(network, nn.Module) else LinearPrediction(w, self.learner.joint)
        # A copy: the learner's own is overwritten by what was learned, which is not where the optimizer stands.
        p_theta = copy.deepcopy(self.learner.model_).to(w.dtype) if isinstance(self.learner, DISC) else None
        return Pair(p_w, p_theta, self.average, sparse=self.norm != "l2")

    def configure_optimizers(self) -> Any:
        pair, (own_w, own_theta) = self._trained(), self.optimizers_given
        w = list(pair.p_w.parameters())
        default = self._default_for_w(w) if pair.linear_w else optimisers.default_for_module(w)
        schedule_w = self.scheduler if self.norm == "l2" and self.turns is None else None  # dual averaging and dual steps have no rate
        self.steppers = [optimisers.stepper(w, default, own_w, schedule_w)]
        if pair.p_theta is not None and pair.theta and (self.turns is None or self.turns.theta == "steps"):
            theta = list(pair.p_theta.parameters())
            default = self._default_for_theta(theta) if pair.linear_theta else optimisers.default_for_module(theta)
            self.steppers.append(optimisers.stepper(theta, default, own_theta, self.scheduler))
        return tuple(stepper.configuration() for stepper in self.steppers)

    def _default_for_w(self, w: list[nn.Parameter]) -> Stepper:
        if self.turns is not None:
            return optimisers.counting(w)
        return optimisers.default_for_linear_w(w, self.samples.candidates, self.learner, self.norm)

    def _default_for_theta(self, theta: list[nn.Parameter]) -> Stepper:
        return optimisers.default_for_theta(theta, self.samples.candidates)

    def on_fit_start(self) -> None:
        self.samples = self.samples.to(self.device)
        if self.turns is not None:
            self.turns.dual.to(self.samples)

    def on_train_start(self) -> None:
        if not self.epochs.rows:
            self.epochs.origin = self._measured().measure(self.samples)[0].value

    # ---- learning ------------------------------------------------------------------------------------------------

    def on_train_epoch_start(self) -> None:
        self._started = time.perf_counter()
        seed_batches(self, self.learner.seed)

    @property
    def _warm(self) -> bool:
        return self.current_epoch < self.warmup_epochs

    @property
    def _moving(self) -> list[Stepper]:
        """The optimizers that step in this epoch."""
        if self.turns is not None:
            return self.steppers[1:] if self.turns.of == "p_theta" else self.steppers[:1]
        return self.steppers[:1] if self._warm else self.steppers

    def training_step(self, batch: Tensor, batch_idx: int) -> None:
        if self.begin_step(batch_idx):
            return
        pair = self._trained()
        for _ in range(1 if self.turns is None else self.turns.steps):
            self._step(pair, batch)
        self.end_step(pair, average=False)

    def begin_step(self, batch_idx: int) -> bool:
        """Whether learning is over, as in a finished run that is resumed; otherwise seed what is random, such as dropout."""
        if self.epochs.converged:
            self.trainer.should_stop = True
            return True
        if batch_idx == 0:
            torch.manual_seed(epoch_seed(self, self.learner.seed, self.global_rank))
        return False

    def end_step(self, pair: Pair, average: bool = True) -> None:
        """Update the averages; after the last batch, measure (11) on all samples."""
        if average:
            pair.average()
        if self.trainer.is_last_batch:  # not after the epoch: a checkpoint that is written after validation must have it
            self._end_epoch(pair)

    def _step(self, pair: Pair, batch: Tensor) -> None:
        self.zero_grad()
        value = self._value(pair, batch) if self.turns is None else self.turns.step(pair, batch)
        if value is not None:
            self.manual_backward(value)
        self.step_optimizers()
        pair.average(None if self.turns is None else self.turns.of)

    def step_optimizers(self) -> None:
        """A step of every optimizer that moves in this epoch, and of its scheduler if that goes by steps."""
        found = self.optimizers()
        pairs = zip(found if isinstance(found, list) else [found], self.steppers, strict=True)
        for optimizer, stepper in [(o, s) for o, s in pairs if any(s is moving for moving in self._moving)]:
            self._before_step(stepper)
            optimizer.step()
            if stepper.by_step:
                stepper.scheduler.step()

    def _value(self, pair: Pair, index: Tensor) -> Tensor:
        """What is lowered, of the samples `index` (m,)."""
        return batch_objective(self.learner, pair.p_w, pair.p_theta, self.norm).value(self.samples.batch(index), self._warm)

    def _before_step(self, stepper: Stepper) -> None:
        """Once the gradients are there."""

    def _end_epoch(self, pair: Pair) -> None:
        moved = self._moving
        if self.turns is None:
            objective, measures = self._measured().measure(self.samples)
            passes = 4 if pair.p_theta is not None else 2  # to learn and to measure, by each distribution
        else:
            objective, measures = self.turns.end_epoch(pair)
            passes = self.turns.passes
        self.log_row(self.epochs.add(objective, measures, passes, time.perf_counter() - self._started))
        for stepper in moved:
            stepper.end_epoch(objective.value)
        self.trainer.should_stop = self.trainer.should_stop or self.epochs.converged

    def on_train_end(self) -> None:
        pair = self._trained()
        if pair.linear_w and self.epochs.rows:  # the learner is then as good as fitted
            self.learner.load_state_dict(self.learned())
            if isinstance(self.learner, DISC):
                self.learner.model_ = pair.conditional()  # type: ignore[assignment]
        if self.trainer.is_global_zero:
            self.epochs.warn_if_unfinished()

    def _measured(self) -> BatchObjective:
        pair = self._trained()
        return batch_objective(self.learner, pair.prediction(), pair.conditional(), self.norm)

    # ---- using ---------------------------------------------------------------------------------------------------

    def _trained(self, candidates: Candidates | None = None) -> Pair:
        """The pair, for candidates that it fits."""
        if self.pair is None:
            raise ValueError("this StochasticModule knows nothing yet: train it, or load a checkpoint, before it predicts")
        expected = self.learner.n_features_in_
        if candidates is not None and candidates.n_features != expected:
            raise ValueError(f"candidates must have {expected} features, as in training, but they have {candidates.n_features}")
        return self.pair

    def prediction(self, candidates: Candidates) -> Prediction:
        return self._trained(candidates).prediction()

    @torch.no_grad()
    def posterior(self, candidates: Candidates, y: Tensor) -> Tensor:
        labels = candidates.outputs(y, self.learner.n_classes_)
        p_theta = self._trained(candidates).conditional()
        if p_theta is not None:
            return p_theta(candidates, labels).p
        scores = self.prediction(candidates).scores(candidates)
        return delta_at(scores, best_of_class(candidates, scores, labels))

    def history(self) -> list[dict[str, float]]:
        return self.epochs.rows

    # ---- checkpoints ---------------------------------------------------------------------------------------------

    def learned(self) -> dict[str, Any]:
        """Both distributions and the history, as the learner's own `load_state_dict` takes them up; `coef` is None for a network."""
        sizes = {"n_classes": self.learner.n_classes_, "n_features": self.learner.n_features_in_, "n_phi": self.n_phi}
        dual = {} if self.turns is None else {"dual": self.turns.dual.state()}
        return {"learner": type(self.learner).__name__, **sizes, **self._trained().learned(), **self.epochs.state(), **dual}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        written = checkpoint[CHECKPOINT_KEY]
        if written["module"] != type(self).__name__:
            raise ValueError(f"the checkpoint was written by {written['module']}, but this is {type(self).__name__}; see solver=")
        self.load_learned(written["learned"])  # where the optimizers stood comes next, from Lightning

    def load_learned(self, learned: dict[str, Any]) -> None:
        check_kind(learned, self._networks[0] is not None)
        if self.pair is not None:
            check_sizes(learned, self.learner)
        else:
            self._make_networks(learned["n_features"], learned.get("n_phi", learned["n_features"]), learned["n_classes"])
        self.learner.load_state_dict(learned)
        if self.pair is None:
            self.pair = self._make_pair(next(iter(learned["prediction"].values())))
        self.pair.load_learned(learned)
        self.epochs.load(learned)
        by_dual = isinstance(self.epochs, DualEpochs)
        if ("dual" in learned) > by_dual or (self.turns is not None and "dual" not in learned):
            kinds = ("subgradient", "dual")
            raise ValueError(
                f"the checkpoint was written by {kinds[not by_dual]} steps on w, but they are {kinds[by_dual]} ones here; see solver.dual"
            )
        if self.turns is not None:
            self.turns.dual.load(learned["dual"])
