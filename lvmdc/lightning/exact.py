"""The exact solver under Lightning: one epoch is one outer iteration."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.distributions import LinearPrediction
from lvmdc.learners import LatentLearner
from lvmdc.lightning.module import CHECKPOINT_KEY, LatentModule


class ExactModule(LatentModule):
    """Calls `learner.step()` once per epoch: w by CCCP and the cutting plane, then θ; stops by the learner's own rule.

    It does not use its batch, which is the indices of all training samples: an outer iteration needs the whole set, to which cached
    scores and cutting planes belong, so that the learner takes it once from the data module, in `on_fit_start`.
    """

    _restored: dict[str, Any] | None = None

    def __init__(self, learner: LatentLearner, config: dict[str, Any] | None = None):
        super().__init__(learner, config)
        if learner.n_init > 1:
            raise ValueError(f"method.n_init must be 1 here, but it is {learner.n_init}: train several starts with -m seed=0,1,…")
        # NOTE: ModelCheckpoint writes nothing unless an optimizer steps, so one steps over a parameter that nothing reads.
        self.counter = torch.nn.Parameter(torch.zeros(1))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD([self.counter], lr=0.0)

    def check_over_ranks(self) -> None:
        self.learner.check_over_ranks()

    def on_fit_start(self) -> None:
        """The device is known here. Over several ranks `train` is the part of this rank."""
        train = self.data.train_with(self.learner)
        self.learner.n_classes = len(self.data.classes)
        self.learner.begin(train.candidates.to(self.device), train.y, h=train.h_for(self.learner))
        if self._restored is not None:
            self.learner.load_state_dict(self._restored)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self._restored = checkpoint[CHECKPOINT_KEY]["learned"]  # Lightning calls this before `on_fit_start`

    def training_step(self, batch: Tensor, batch_idx: int) -> None:
        if not self.learner.converged_:  # a finished run that is resumed has nothing left to do
            self.log_row(self.learner.step())
        self.optimizers().step()  # type: ignore[union-attr]
        self.trainer.should_stop = self.trainer.should_stop or self.learner.converged_

    def on_train_end(self) -> None:
        if self.trainer.is_global_zero:
            self.learner.warn_if_unfinished()

    def prediction(self, candidates: Candidates) -> LinearPrediction:
        return self.learner.prediction(candidates)

    def posterior(self, candidates: Candidates, y: Tensor) -> Tensor:
        return self.learner.predict_latent_proba(candidates, y)

    def history(self) -> list[dict[str, float]]:
        return self.learner.history_

    def learned(self) -> dict[str, Any]:
        return self.learner.state_dict()

    def load_learned(self, learned: dict[str, Any]) -> None:
        self.learner.load_state_dict(learned)
