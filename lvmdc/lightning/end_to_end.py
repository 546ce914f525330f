"""End to end: the network that describes candidates learns with w and θ."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from lvmdc.candidates import Candidates
from lvmdc.inference import best_of_class
from lvmdc.learners import LatentLearner
from lvmdc.lightning import optimizers
from lvmdc.lightning.alternating import AlternatingModule
from lvmdc.lightning.averaged import AveragedWeights
from lvmdc.lightning.batches import Batch, TrainingSet
from lvmdc.lightning.convergence import PlannedEpochs
from lvmdc.lightning.data import Samples
from lvmdc.lightning.optimizers import OptimizerFactory, Steps
from lvmdc.lightning.region_features import Augmentation, RegionFeatures
from lvmdc.vision.features.base import Features
from lvmdc.vision.features.regions import Learned, RegionNetwork

Heads = Literal["exact", "steps"]
FINE = 10  # times the planned steps count as taken by w, where it starts at its optimum: it only follows the network
GENTLE = 0.1  # of the usual rate of θ, where it starts at its optimum


class EndToEndModule(AlternatingModule):
    """Learns (11) by a step on w, one on θ and one on the weights of a network for every mini-batch of images.

    Ψ and Φ are what a `RegionNetwork` makes of an image's pixels under its candidate boxes, so that ξ_i and H_i have derivatives in its
    weights, too: the network takes the step that the sum of both blocks' objectives asks for; with `theta_bound=slack` all three
    together are one subgradient step on (11). Its weights have no term in (11); `weight_decay` is its optimizer's.

    An epoch is a row of the history: (11) on all training images without augmentation. Learning takes all of `trainer.max_epochs`.

    Args:
        network: what describes candidates; EfficientNet-Lite0 where not given.
        augmentation: random views of the training images; None: the images as they are.
        optimizer_backbone: makes the optimizer of the network's weights; its rate falls linearly to zero.
        frozen_epochs: how long the network stays fixed while w and θ learn.
        clip: the length that the network's gradient is cut to; None: no limit.
        begin: `exact`: w and θ start at the optimum on the network's first features; `steps`: at zero.
        finish: `exact`: in the last epoch w and θ go to the optimum on the features that were learned, from the h* of the learned w.
        hold: with `begin=exact`, h* and θ stay where the exact solver left them while w and the network learn, as h* does in a round of
            CCCP. Otherwise h* follows w with every step, and a network that is free to choose its own targets may learn to see the
            class in any window. `all`: w stays there, too, and the network learns alone.
        options: those of `AlternatingModule`.
    """

    learns_features = True
    convergence: PlannedEpochs

    def __init__(
        self,
        learner: LatentLearner,
        config: dict[str, Any] | None = None,
        network: RegionNetwork | None = None,
        augmentation: Augmentation | None = None,
        optimizer_backbone: OptimizerFactory | None = None,
        frozen_epochs: int = 0,
        clip: float | None = 1.0,
        begin: Heads = "exact",
        finish: Heads = "exact",
        hold: bool | Literal["all"] = False,
        **options: Any,
    ):
        self.begin, self.finish, self.hold = begin, finish, hold
        self.frozen_epochs, self.clip = frozen_epochs, clip
        if begin == "exact":
            options["warmup_epochs"] = 0  # h* is where the exact solver left it
        super().__init__(learner, config, **options)
        self._check_settings(options)
        self.network = RegionNetwork() if network is None else network
        self.regions = RegionFeatures(self.network)
        self.augmentation, self.optimizer_backbone = augmentation, optimizer_backbone
        self.convergence = PlannedEpochs()

    def check_no_outer_iterations(self) -> None:
        if "exact" not in (self.begin, self.finish):
            super().check_no_outer_iterations()

    def _check_settings(self, options: dict[str, Any]) -> None:
        for name, value in (("begin", self.begin), ("finish", self.finish)):
            if value not in get_args(Heads):
                raise ValueError(f"{name} must be one of {', '.join(get_args(Heads))}, but it is {value!r}")
        networks = options.get("prediction") or options.get("conditional") or isinstance(self.learner.conditional, nn.Module)
        if "exact" in (self.begin, self.finish) and networks:
            raise ValueError(
                "begin and finish must be 'steps' where prediction or conditional is a network: the exact solver is for linear ones"
            )
        if self.frozen_epochs < 0 or (self.clip is not None and not self.clip > 0):
            raise ValueError(f"frozen_epochs must be at least 0 and clip positive, but they are {self.frozen_epochs} and {self.clip}")
        if self.hold not in (False, True, "all"):
            raise ValueError(f"hold must be false, true or 'all', but it is {self.hold!r}")
        if self.hold and self.begin != "exact":
            raise ValueError(f"hold keeps h* where the exact solver left it, so that begin must be 'exact', but it is {self.begin!r}")
        for name in ("w", "theta") if self.hold == "all" else ("theta",) if self.hold else ():
            if options.get(f"optimizer_{name}") is not None:
                raise ValueError(f"hold={self.hold!r} keeps {name} where the exact solver left it, but optimizer_{name} would move it")
        if self.hold == "all" and self.frozen_epochs:
            raise ValueError(f"hold='all' lets the network alone learn, so that frozen_epochs must be 0, but it is {self.frozen_epochs}")

    # ---- before the first step -----------------------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        check_precision(str(self.trainer.precision))
        self.network.to(self.trainer.strategy.root_device)
        super().setup(stage)

    def training_samples(self) -> Samples:
        return self._describe_training(self.data.progress)

    def make_optimizers(self) -> dict[str, Steps]:
        weights = [parameter for parameter in self.network.parameters() if parameter.requires_grad]
        count = max(1, self._batches * (self._planned - self._waiting))
        return super().make_optimizers() | {"network": optimizers.for_backbone(weights, count, self.optimizer_backbone)}

    @property
    def _batches(self) -> int:
        """Batches in an epoch."""
        return math.ceil(len(self.samples) / (self.data.batch_size or len(self.samples)))

    @property
    def _planned(self) -> int:
        """How many epochs there will be."""
        epochs = self.trainer.max_epochs
        if epochs is None or epochs < 1:
            raise ValueError(f"trainer.max_epochs must be at least 1, since the rate falls over that many epochs, but it is {epochs}")
        return epochs

    def default_for_w(self, w: list[nn.Parameter]) -> Steps:
        if self.begin == "steps":
            return super().default_for_w(w)
        return optimizers.for_linear_w(w, self.samples.candidates, self.learner.C, done=FINE * self._batches * self._planned)

    def default_for_theta(self, theta: list[nn.Parameter]) -> Steps:
        if self.begin == "steps":
            return super().default_for_theta(theta)
        return optimizers.for_log_linear(theta, self.samples.candidates.for_phi(), GENTLE)

    def on_train_start(self) -> None:
        rule = self.convergence
        rule.planned = self._planned
        rule.converged = rule.enough()  # a run that is resumed may have another plan
        if rule.rows:  # resumed: the network has changed since `setup`
            self._describe_training()
        super().on_train_start()
        if not rule.rows and self.begin == "exact":
            load_heads(self.weights, solve_heads(self.learner, self.samples))
            scores = self.weights.prediction().scores(self.samples.candidates)
            self._held = best_of_class(self.samples.candidates, scores, self.samples.y)
        if self.hold:
            assert self._held is not None
            self.samples.start = torch.zeros_like(self.samples.start).index_fill(0, self._held.to(self.device), 1.0)

    # ---- steps ---------------------------------------------------------------------------------------------------

    def training_step(self, batch: Tensor, batch_idx: int) -> None:
        """A step on w, θ and the network; see `AlternatingModule.training_step`, whose batches come from the network here."""
        index, share = self.samples.own(batch.to(self.device))
        described = self._describe(index)
        with torch.autocast(self.device.type, enabled=False):  # half precision is for the network alone
            taken = self.samples.take(index, share)
            self._taken = taken if described is None else replace(taken, loss=taken.loss.on(described))
            super().training_step(batch, batch_idx)

    def take(self, index: Tensor) -> Batch:
        return self._taken

    def _describe(self, index: Tensor) -> Candidates | None:
        """The candidates of a batch by the network; None where those of the whole set are the same."""
        if self._frozen and self.augmentation is None:
            return None
        self.network.train(not self._frozen)
        with torch.set_grad_enabled(not self._frozen):
            return self.regions(super().training_samples().subset(index.cpu()), self.augmentation).to(self.device)

    @property
    def h_held(self) -> bool:
        return bool(self.hold) or super().h_held

    @property
    def _waiting(self) -> int:
        """For how many epochs the network stays fixed."""
        return max(self.warmup_epochs, self.frozen_epochs)

    @property
    def _frozen(self) -> bool:
        return self.current_epoch < self._waiting

    def moving(self) -> set[str]:
        held = {"p_w", "p_theta"} if self.hold == "all" else {"p_theta"} if self.hold else set()
        heads = super().moving() - {"network"} - held
        return heads if self._frozen else heads | {"network"}

    def step_optimizers(self) -> None:
        if "network" in self.moving():
            self._current = False
            if self.clip is not None:
                nn.utils.clip_grad_norm_(self.network.parameters(), self.clip)
        super().step_optimizers()

    def end_epoch(self) -> None:
        if not self._current:
            with self.trainer.precision_plugin.forward_context():
                self._describe_training()
        if self.finish == "exact" and self.current_epoch + 1 >= self._planned:
            scores = self.weights.prediction().scores(self.samples.candidates)
            load_heads(self.weights, solve_heads(self.learner, self.samples, scores))
        super().end_epoch()

    # ---- features, prediction, checkpoints -----------------------------------------------------------------------

    _held: Tensor | None = None  # (n,) packed rows of h*, where the exact solver left it
    _seen: tuple[Samples, Samples] | None = None  # the training samples, and as the network described them last
    _current = True  # whether it still describes them so

    def _describe_training(self, progress: bool = False) -> Samples:
        """Describe the training images by the current network; they determine the length of its features."""
        train = super().training_samples()
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
            reason = str(error).splitlines()[-1].strip()[:200]
            raise ValueError(f"the checkpoint has another network than module.network: {reason}") from None


def check_precision(precision: str) -> None:
    """Refuse half precision whose gradients must be scaled, since several optimizers do not share one scale.

    >>> check_precision("bf16-mixed")
    """
    if precision == "16-mixed":
        raise ValueError("trainer.precision must be bf16-mixed, 32-true or 64-true for module=end_to_end, but it is 16-mixed")


def solve_heads(learner: LatentLearner, samples: TrainingSet, scores: Tensor | None = None) -> dict[str, Any]:
    """Minimise (11) over w and θ as `learner.fit` does, on the current features of all samples; for `load_heads`.

    Args:
        scores: (T, K) of a w: CCCP starts from its h*, and not from the learner's `init`.
    """
    c, y, known = samples.candidates.detach(), samples.y, samples.known
    exact: LatentLearner = learner.clone().set_params(n_classes=samples.n_classes)
    h = (known - c.offsets).where(known >= 0, known) if learner.uses_known_h else None
    h_init = None
    if scores is not None:
        exact.set_params(init="given")
        h_init = c.index(best_of_class(c, scores, y))
    exact.fit(c, y, h=h, h_init=h_init)
    found: dict[str, Any] = {"prediction": {"w": exact.coef_}}
    return found | {"theta": dict(exact.model_.state_dict())} if exact.has_theta else found


def load_heads(weights: AveragedWeights, found: dict[str, Any]) -> None:
    """Set both distributions to what the exact solver found."""
    like = dict(weights.p_w.named_parameters())["w"]
    weights.load_learned(found | {"prediction": {"w": found["prediction"]["w"].reshape(like.shape)}})
