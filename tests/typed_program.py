"""What a user writes, with types: a loss, a training, a prediction. tests/test_package.py checks it with `mypy --strict`."""

from typing import assert_type

import torch
from torch import Tensor

from lvmdc import DISC, LSVM, Candidates, Latent, Loss, OverlapLoss


class Distance(Loss):
    """1 where the classes differ, otherwise the distance of the candidates in their order, at most 1."""

    def delta(self, y1: Tensor, h1: Latent, y2: Tensor, h2: Latent) -> Tensor:
        return torch.where(y1 == y2, ((h1.index - h2.index).abs() / 4).clamp(max=1.0), 1.0)


def learn(loss: Loss) -> tuple[Tensor, Tensor]:
    """Train, predict, and look at what was learned."""
    boxes = torch.rand(50, 2).repeat(1, 2) + torch.tensor([0.0, 0.0, 1.0, 1.0])
    candidates = Candidates(torch.randn(50, 16), counts=[5] * 10, boxes=boxes)
    y = torch.arange(10) % 2
    model = DISC(loss, C=1.0).fit(candidates, y)
    assert_type(model, DISC)
    y_hat, h_hat = model.predict(candidates)
    assert_type(y_hat, Tensor)
    assert_type(model.predict_latent_proba(candidates, y), Tensor)
    assert_type(model.objective_, float)
    assert_type(LSVM(C=2.0).fit(candidates, y).score(candidates, y, h_hat), float)
    return y_hat, h_hat


if __name__ == "__main__":
    learn(OverlapLoss())
    learn(Distance())
