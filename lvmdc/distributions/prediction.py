"""P_w, the delta distribution that predicts (y, h)."""

from abc import ABC, abstractmethod

from torch import Tensor, nn

from lvmdc import inference
from lvmdc.candidates import Candidates
from lvmdc.distributions.on_samples import Delta
from lvmdc.feature_maps import ClassBlocks, JointFeatureMap


class Prediction(nn.Module, ABC):
    """P_w(y, h | x): all mass on (y(w), h(w)) = argmax w·Ψ(x, y, h) (3)(4). A subclass gives the scores.

    >>> class First(Prediction):  # always class 0, the brighter candidate
    ...     def scores(self, candidates):
    ...         return candidates.features.sum(dim=1, keepdim=True)
    >>> First()(Candidates(torch.tensor([[1.0], [3.0]]), [2])).h
    tensor([1])
    """

    @abstractmethod
    def scores(self, candidates: Candidates) -> Tensor:
        """(T, K): the score of every (y, h)."""

    def forward(self, candidates: Candidates) -> Delta:
        return Delta(candidates, *self.predict(candidates))

    def predict(self, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """(y(w), h(w)): classes (n,) and candidate indices (n,) (3)."""
        y, rows = inference.best(candidates, self.scores(candidates))
        return y, candidates.index(rows)

    def top_k(self, candidates: Candidates, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """The k best (y, h) of each sample, best first: classes, candidate indices, scores, each (n, k); see `inference.top_k`."""
        return inference.top_k(candidates, self.scores(candidates), k)


class LinearPrediction(Prediction):
    """Scores w·Ψ(x, y, h) with the joint feature map Ψ, default class blocks.

    >>> p_w = LinearPrediction(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    >>> p_w.predict(Candidates(torch.eye(2), [2]))
    (tensor([1]), tensor([1]))
    """

    def __init__(self, w: Tensor, joint: JointFeatureMap | None = None):
        super().__init__()
        self.joint = ClassBlocks(len(w)) if joint is None else joint
        self.w = nn.Parameter(w.detach().clone())

    def scores(self, candidates: Candidates) -> Tensor:
        return self.joint.scores(candidates, self.w.flatten())


class NeuralPrediction(Prediction):
    """Scores by any module that maps candidate features (T, d) to class scores (T, K).

    >>> NeuralPrediction(torch.nn.Linear(2, 3)).scores(Candidates(torch.eye(2), [2])).shape
    torch.Size([2, 3])
    """

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def scores(self, candidates: Candidates) -> Tensor:
        return module_scores(self.module, candidates)


def module_scores(module: nn.Module, candidates: Candidates) -> Tensor:
    """(T, K) scores of a module on candidate features, refused if they are not finite or not of that shape.

    >>> module_scores(torch.nn.Linear(2, 3), Candidates(torch.eye(2), [2])).shape
    torch.Size([2, 3])
    """
    first = next(module.parameters(), None)
    scores = module(candidates.features if first is None else candidates.features.to(first.dtype))
    if scores.dim() != 2 or len(scores) != candidates.n_candidates:
        raise ValueError(f"module must return scores of shape ({candidates.n_candidates}, K), but it returned {tuple(scores.shape)}")
    if not bool(scores.isfinite().all()):
        raise ValueError(f"module must return finite scores, but {type(module).__name__} returned NaN or infinity")
    return scores
