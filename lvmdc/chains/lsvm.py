"""The latent structural SVM on chains."""

import torch
from torch import Tensor

from lvmdc.chains.hinge import own_viterbi
from lvmdc.chains.learner import ChainLearner
from lvmdc.chains.sequences import Chains
from lvmdc.learners.lsvm import ROUNDS


class ChainLSVM(ChainLearner):
    """½‖w‖² + C/n Σ_i ξ_i, where ξ_i measures the loss from h*_i = argmax_h w·Ψ(x_i, y_i, h): CCCP, with Viterbi for every maximum.

    What is believed of h is a delta at h*; see `LSVM`.

    >>> from lvmdc.chains import Chains
    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])  # two sequences: the same two sites in either order
    >>> model = ChainLSVM(n_states=2, C=10.0).fit(Chains(x, [2, 2]), [0, 1])
    >>> model.predict(Chains(x, [2, 2]))[0]
    tensor([0, 1])
    """

    def _begin(self) -> None:
        """The posterior starts where h* does."""

    def _step(self) -> dict[str, float]:
        t = self._training
        rounded = t.cccp.run(lambda truth: t.expected_loss(t.delta_at(truth)), ROUNDS)
        t.p = t.delta_at(t.cccp.truth)
        self.converged_ = rounded.converged
        return {**t.objective().terms(), **t.measures(), "decrease": rounded.decrease, "gap": rounded.gap}

    def _marginals(self, chains: Chains, y: Tensor) -> Tensor:
        _, h = own_viterbi(self.map_, chains.window(self.window), self.coef_, y)
        return torch.nn.functional.one_hot(h, self.n_states).to(chains.features.dtype) * chains.mask[..., None]
