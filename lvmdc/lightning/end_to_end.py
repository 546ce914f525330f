"""w and θ by the exact solver, on features that are held."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal, get_args

import torch
from sklearn.base import clone
from torch import Tensor, nn

from lvmdc.candidates import Candidates
from lvmdc.inference import best_of_class
from lvmdc.learners import DISC, LatentLearner, SoftDISC, Supervised
from lvmdc.lightning import optimizers as optimisers
from lvmdc.lightning.averaged import Pair
from lvmdc.lightning.batches import TrainingSet, batch_objective
from lvmdc.lightning.convergence import PlannedEpochs
from lvmdc.lightning.data import Samples
from lvmdc.lightning.optimizers import OptimizerFactory, Stepper
from lvmdc.lightning.region_features import Augmentation, RegionFeatures
from lvmdc.lightning.stochastic import StochasticModule
from lvmdc.lightning.validation import check_hold, check_iterations, check_precision
from lvmdc.vision.features.base import Features
from lvmdc.vision.features.regions import Learned, RegionNetwork


def solve_heads(learner: LatentLearner, samples: TrainingSet, scores: Tensor | None = None) -> dict[str, Any]:
    """Minimise (11) over w and θ as `learner.fit` does, on the features of all samples as they are; what `Pair.load_learned` takes.

    Args:
        scores: (T, K) of a w that is at hand: CCCP starts from its h*, and not from the learner's `init`.
    """
    c, y = samples.candidates.detach(), samples.y
    exact: LatentLearner = clone(learner).set_params(n_classes=samples.n_classes)
    known = samples.known
    h = (known - c.offsets).where(known >= 0, known) if isinstance(learner, Supervised) else None
    h_init = None
    if scores is not None:
        exact.set_params(init="given")
        h_init = c.index(best_of_class(c, scores, y))
    exact.fit(c, y, h=h, h_init=h_init)
    found: dict[str, Any] = {"prediction": {"w": exact.coef_}}
    return found | {"theta": dict(exact.model_.state_dict())} if isinstance(exact, DISC) else found


def check_linear(learner: LatentLearner, options: dict[str, Any]) -> None:
    """Refuse heads that the exact solver cannot solve."""
    own = options.get("prediction") or options.get("conditional")  # a group that is empty says none
    if own or not isinstance(getattr(learner, "conditional", "log_linear"), str):
        raise ValueError(
            "begin and finish must be 'steps' where prediction or conditional is a network: the exact solver is for linear ones"
        )


def load_heads(pair: Pair, found: dict[str, Any]) -> None:
    """Both distributions go where the exact solver ended."""
    like = dict(pair.p_w.named_parameters())["w"]
    pair.load_learned(found | {"prediction": {"w": found["prediction"]["w"].reshape(like.shape)}})


# End to end: the network that describes candidates learns with w and θ.

Heads = Literal["exact", "steps"]
Hold = bool | Literal["all"]
FINE = 10  # times as many steps as are planned count as taken by w, where it starts at its optimum: it is to follow, not to search
GENTLE = 0.1  # of the usual rate of θ, where it starts at its optimum


class EndToEndModule(StochasticModule):
    """Learns (11) by a step on w, one on θ and one on the weights of a network for every mini-batch of images.

    Ψ and Φ are what a `RegionNetwork` makes of an image's pixels under its candidate boxes, so that ξ_i and H_i have derivatives in its
    weights too: the network takes the step that the sum of both blocks' objectives asks for, see `BatchObjective`; with
    `theta_bound=slack` all three together are one subgradient step on (11). It has no term in (11); `weight_decay` is its optimizer's.

    An epoch's row of the history is (11) on all training images as they are, without augmentation.

    Args:
        network: what describes candidates; EfficientNet-Lite0 where not given.
        augmentation: other views of the training images; None: as they are.
        optimizer_backbone: makes the optimizer of the network's weights; its rate falls evenly to zero.
        frozen_epochs: how long the network stays as it was while w and θ learn.
        alternate: w and θ step with every other batch, the network with those between; otherwise all with every batch.
        clip: the length that the network's gradient is cut to; None: as it comes.
        theta_to_backbone: whether the network also learns from what θ minimises.
        begin: `exact`: w and θ start at the optimum on the network's first features; `steps`: at zero.
        finish: `exact`: in the last epoch w and θ go to the optimum on the features that were learned, from the h* of the learned w.
        hold: with `begin=exact`, h* and θ stay where the exact solver left them while w and the network learn, as h* does in a round of
            CCCP. Otherwise h* follows w with every step, and a network that is free to choose its own targets may learn to see the
            class in any window. `all`: w stays there too, and the network learns alone.
        options: those of `StochasticModule`.
    """

    learns_features = True
    epochs: PlannedEpochs
    steps_alone = False

    def __init__(
        self,
        learner: LatentLearner,
        config: dict[str, Any] | None = None,
        network: RegionNetwork | None = None,
        augmentation: Augmentation | None = None,
        optimizer_backbone: OptimizerFactory | None = None,
        frozen_epochs: int = 0,
        alternate: bool = False,
        clip: float | None = 1.0,
        theta_to_backbone: bool = True,
        begin: Heads = "exact",
        finish: Heads = "exact",
        hold: Hold = False,
        **options: Any,
    ):
        if begin == "exact":
            options["warmup_epochs"] = 0  # h* is where the exact solver left it
        super().__init__(learner, config, **options)
        for name, value in (("begin", begin), ("finish", finish)):
            if value not in get_args(Heads):
                raise ValueError(f"{name} must be one of {', '.join(get_args(Heads))}, but it is {value!r}")
        if "exact" in (begin, finish):
            check_linear(learner, options)
        else:
            check_iterations(learner)
        if frozen_epochs < 0 or (clip is not None and not clip > 0):
            raise ValueError(f"frozen_epochs must be at least 0 and clip positive, but they are {frozen_epochs} and {clip}")
        self.network = RegionNetwork() if network is None else network
        self.regions = RegionFeatures(self.network)
        self.augmentation, self.optimizer_backbone = augmentation, optimizer_backbone
        self.frozen_epochs, self.alternate, self.clip, self.theta_to_backbone = frozen_epochs, alternate, clip, theta_to_backbone
        check_hold(hold, begin, alternate, frozen_epochs, options)
        self.begin, self.finish, self.hold = begin, finish, hold
        self.epochs = PlannedEpochs()
        self._turn = 0

    # ---- making ready --------------------------------------------------------------------------------------------

    @property
    def _dual_can(self) -> bool:
        return False  # the dual is that of features which stay

    def setup(self, stage: str) -> None:
        check_precision(str(self.trainer.precision))
        self.network.to(self.trainer.strategy.root_device)
        super().setup(stage)

    def _to_learn_from(self) -> Samples:
        return self._look(self.data.progress)

    def _check_fits(self) -> None:
        """Any images do."""

    def configure_optimizers(self) -> Any:
        super().configure_optimizers()
        weights = [parameter for parameter in self.network.parameters() if parameter.requires_grad]
        steps = max(1, self._steps * (self._planned - self._waiting) // (2 if self.alternate else 1))
        self.steppers.append(optimisers.default_for_backbone(weights, steps, self.optimizer_backbone))
        return tuple(stepper.configuration() for stepper in self.steppers)

    @property
    def _steps(self) -> int:
        """Batches in an epoch."""
        return math.ceil(len(self.samples) / (self.data.batch_size or len(self.samples)))

    @property
    def _planned(self) -> int:
        """How many epochs there will be."""
        if self.trainer.max_epochs is None or self.trainer.max_epochs < 1:
            raise ValueError(
                f"trainer.max_epochs must be at least 1, since the rate falls over so many, but it is {self.trainer.max_epochs}"
            )
        return self.trainer.max_epochs

    def _default_for_w(self, w: list[nn.Parameter]) -> Stepper:
        if self.begin == "steps" or self.norm != "l2" or isinstance(self.learner, SoftDISC):
            return super()._default_for_w(w)
        return optimisers.default_for_w(w, self.samples.candidates, self.learner.C, done=FINE * self._steps * self._planned)

    def _default_for_theta(self, theta: list[nn.Parameter]) -> Stepper:
        factor = 1.0 if self.begin == "steps" else GENTLE
        return optimisers.default_for_theta(theta, self.samples.candidates, factor)

    def on_train_start(self) -> None:
        self.epochs.planned = self._planned
        self.epochs.converged = self.epochs.enough()  # a run that is resumed may have other plans than it had
        if self.epochs.rows:  # resumed: the network is another than it was in setup
            self._look()
        super().on_train_start()
        pair = self._trained()
        if not self.epochs.rows and self.begin == "exact":
            load_heads(pair, solve_heads(self.learner, self.samples))
            scores = pair.prediction().scores(self.samples.candidates)
            self._held = best_of_class(self.samples.candidates, scores, self.samples.y)
        if self.hold:
            assert self._held is not None
            self.samples.start = torch.zeros_like(self.samples.start).index_fill(0, self._held.to(self.device), 1.0)

    # ---- learning ------------------------------------------------------------------------------------------------

    def training_step(self, batch: Tensor, batch_idx: int) -> None:
        self._turn = (self.current_epoch - self._waiting) * self._steps + batch_idx  # over epochs: one may be a single batch
        super().training_step(batch, batch_idx)

    @property
    def _waiting(self) -> int:
        """For how many epochs the network stays as it was."""
        return max(self.warmup_epochs, self.frozen_epochs)

    @property
    def _frozen(self) -> bool:
        return self.current_epoch < self._waiting

    @property
    def _moving(self) -> list[Stepper]:
        heads = [stepper for stepper in super()._moving if stepper is not self.steppers[-1]]
        if self.hold:
            heads = [] if self.hold == "all" else heads[:1]
        if self._frozen:
            return heads
        if not self.alternate:
            return [*heads, self.steppers[-1]]
        return [self.steppers[-1]] if self._turn % 2 else heads

    def _value(self, pair: Pair, index: Tensor) -> Tensor:
        index, share = self.samples.own(index)
        batch = self.samples.take(index, share)
        if not self._frozen or self.augmentation is not None:
            self.network.train(not self._frozen)
            with torch.set_grad_enabled(not self._frozen):
                seen = self.regions(super()._to_learn_from().subset(index.cpu()), self.augmentation).to(self.device)
            batch = replace(batch, bound=batch.bound.on(self._cut(seen)))
        with torch.autocast(self.device.type, enabled=False):  # the network alone gains by half precision
            return batch_objective(self.learner, pair.p_w, pair.p_theta, self.norm).value(batch, self._warm or bool(self.hold))

    def _cut(self, seen: Candidates) -> Candidates:
        if self.theta_to_backbone:
            return seen
        return Candidates(seen.features, seen.counts, seen.boxes, seen.for_phi().features.detach(), seen.prior)

    def _before_step(self, stepper: Stepper) -> None:
        if stepper is self.steppers[-1]:
            self._current = False
            if self.clip is not None:
                nn.utils.clip_grad_norm_(self.network.parameters(), self.clip)

    def _end_epoch(self, pair: Pair) -> None:
        if not self._current:
            self._look()
        with torch.autocast(self.device.type, enabled=False):
            if self.finish == "exact" and self.current_epoch + 1 >= self._planned:
                load_heads(pair, solve_heads(self.learner, self.samples, pair.prediction().scores(self.samples.candidates)))
            super()._end_epoch(pair)

    # ---- using ---------------------------------------------------------------------------------------------------

    _held: Tensor | None = None  # (n,) packed rows of h*, where the exact solver left it
    _seen: tuple[Samples, Samples] | None = None  # the training samples, and as the network saw them last
    _current = True  # whether it still sees them so

    def _look(self, progress: bool = False) -> Samples:
        """Describe the training images by the network as it is, whose features they settle the length of."""
        train = super()._to_learn_from()
        seen = replace(train, candidates=self.regions.describe(train, calibrate=True, progress=progress))
        self._seen, self._current = (train, seen), True
        if hasattr(self, "samples"):
            self.samples.candidates = seen.candidates.to(self.samples.y.device)
        return seen

    def described(self, samples: Samples) -> Samples:
        if self._seen is not None and samples is self._seen[0] and self._current:
            return self._seen[1]
        return replace(samples, candidates=self.regions.describe(samples))

    def describer(self, features: Features) -> Features:
        return Learned(self.network)

    def learned(self) -> dict[str, Any]:
        found = super().learned() | {"network": dict(self.network.state_dict())}
        return found if self._held is None else found | {"held": self._held}

    def load_learned(self, learned: dict[str, Any]) -> None:
        super().load_learned(learned)
        self._held = learned.get("held")
        try:
            self.network.load_state_dict(learned["network"])
        except RuntimeError as error:
            raise ValueError(
                f"the checkpoint has another network than solver.network: {str(error).splitlines()[-1].strip()[:200]}"
            ) from None
