"""Explicit kernel maps: features whose inner products approximate a kernel, for linear P_w and P_θ.

A. Rahimi, B. Recht, Random features for large-scale kernel machines, NIPS 2007; C. Williams, M. Seeger, Using the Nyström method to speed
up kernel machines, NIPS 2000; A. Vedaldi, A. Zisserman, Efficient additive kernels via explicit feature maps, PAMI 34, 2012. The maps
themselves are scikit-learn's.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from lvmdc.candidates import Candidates

Kind = Literal["fourier", "nystroem", "chi2"]
CHUNK_NUMBERS = 1 << 23  # mapped numbers per chunk


class KernelMap:
    """Maps the features of candidates, and the separate ones of Φ if any; fitted on the training part alone.

    Args:
        kind: `fourier`, random Fourier features of the Gaussian kernel exp(−γ‖x − x'‖²); `nystroem`, the same kernel by its values at some
            training candidates; `chi2`, the additive χ² kernel Σ_j 2 x_j x'_j / (x_j + x'_j), for histograms: features ≥ 0.
        n_components: numbers per candidate of `fourier` and `nystroem`; `chi2` makes 2·`sample_steps` − 1 of each number.
        gamma: γ; default 1 over d times the variance of the training features.
        sample_steps: how finely `chi2` is sampled, 1 to 3.
        seed: for random draws.

    >>> c = Candidates(torch.rand(30, 4, generator=torch.Generator().manual_seed(0)), [10, 20])
    >>> KernelMap("fourier", n_components=64).fit(c)(c)
    Candidates(2 samples, 30 candidates of 64 features, torch.float32, cpu)
    """

    def __init__(self, kind: Kind, n_components: int = 1000, gamma: float | None = None, sample_steps: int = 2, seed: int = 0):
        if kind not in get_args(Kind):
            raise ValueError(f"kind must be one of {', '.join(get_args(Kind))}, but it is {kind!r}")
        if n_components < 1:
            raise ValueError(f"n_components must be at least 1, but it is {n_components}")
        if gamma is not None and gamma <= 0:
            raise ValueError(f"gamma must be positive, but it is {gamma}")
        if sample_steps not in (1, 2, 3):
            raise ValueError(f"sample_steps must be 1, 2 or 3, but it is {sample_steps}")
        self.kind, self.n_components, self.gamma, self.sample_steps, self.seed = kind, n_components, gamma, sample_steps, seed
        self._maps: dict[str, Any] = {}

    def fit(self, candidates: Candidates) -> KernelMap:
        """Set γ, and the candidates that `nystroem` compares with, from the training part."""
        self._maps = {"features": self._fitted("features", candidates.features)}
        if candidates.phi is not None:
            self._maps["phi"] = self._fitted("phi", candidates.phi)
        return self

    def __call__(self, candidates: Candidates) -> Candidates:
        """The same samples with mapped features."""
        if not self._maps:
            raise ValueError("this KernelMap is not fitted yet: call fit with the training candidates first")
        if (candidates.phi is None) == ("phi" in self._maps):
            raise ValueError("candidates must have phi= if and only if the training candidates have it")
        phi = None if candidates.phi is None else self._mapped("phi", candidates.phi)
        return Candidates(self._mapped("features", candidates.features), candidates.counts, candidates.boxes, phi, candidates.prior)

    def _fitted(self, name: str, features: Tensor) -> Any:
        from sklearn.kernel_approximation import AdditiveChi2Sampler, Nystroem, RBFSampler

        numbers = _numbers(features)
        if self.kind == "chi2":
            self._check_histograms(name, numbers)
            return AdditiveChi2Sampler(sample_steps=self.sample_steps).fit(numbers[:1])
        variance = float(numbers.var(dtype=np.float64))
        gamma = self.gamma if self.gamma is not None else 1 / max(numbers.shape[1] * variance, 1e-12)
        if self.kind == "fourier":
            return RBFSampler(gamma=gamma, n_components=self.n_components, random_state=self.seed).fit(numbers[:1])
        if self.n_components > len(numbers):
            raise ValueError(f"n_components must be at most {len(numbers)}, the training candidates, but it is {self.n_components}")
        return Nystroem(gamma=gamma, n_components=self.n_components, random_state=self.seed).fit(numbers)

    def _mapped(self, name: str, features: Tensor) -> Tensor:
        fitted = self._maps[name]
        if features.shape[1] != fitted.n_features_in_:
            raise ValueError(f"{name} must have {fitted.n_features_in_} numbers per candidate, as in fit, but have {features.shape[1]}")
        width = self.n_components if self.kind != "chi2" else (2 * self.sample_steps - 1) * features.shape[1]
        out = np.empty((len(features), width), np.float32)
        step = max(1, CHUNK_NUMBERS // width)
        for start in range(0, len(features), step):
            part = _numbers(features[start : start + step])
            if self.kind == "chi2":
                self._check_histograms(name, part)
            out[start : start + step] = fitted.transform(part)
        return torch.from_numpy(out).to(features.device)

    @staticmethod
    def _check_histograms(name: str, numbers: np.ndarray) -> None:
        if numbers.min() < 0:
            raise ValueError(f"kind='chi2' needs {name} that are nowhere negative, such as histograms, but one is {numbers.min():g}")


def _numbers(features: Tensor) -> np.ndarray:
    return features.detach().to(torch.promote_types(features.dtype, torch.float32)).cpu().numpy()
