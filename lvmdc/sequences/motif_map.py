"""Ψ of motif finding: letter counts by position inside the motif, a Markov chain outside.

C.-N. Yu, T. Joachims, Learning structural SVMs with latent variables, ICML 2009, section 5.1.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.feature_maps import JointFeatureMap

LETTERS = "ACGT"
BOUND = 1  # the class that has a motif; 0 has none
ROWS = 1 << 18  # candidates per chunk


class MotifMap(JointFeatureMap):
    """Ψ(x, y, h) for a sequence x, y = 1 if it holds a motif, and h, where the motif starts.

    A motif of width W has a weight for each letter at each position, the rest of the sequence one for each letter after the k letters
    before it, as in a Markov chain of order k:

        w·Ψ(x, 1, h) = Σ_{j<W} M[j, x_{h+j}] + Σ_{i ∉ h..h+W−1} B[x_{i−k} … x_i],    w·Ψ(x, 0) = Σ_i B[x_{i−k} … x_i]

    so w = (M, B) has 4W + 4^(k+1) numbers, and B is shared by the classes. The background of the whole sequence is the same for all (y, h),
    changes neither margins nor predictions, and is left out: class 0 scores 0, class 1

        w·(Ψ(x, 1, h) − Ψ(x, 0)) = Σ_{j<W} M[j, x_{h+j}] − B[x_{h+j−k} … x_{h+j}].

    Class 0 has no motif: only the first candidate is its h. The features of a candidate are the W codes of `codes`, not the counts: a tenth
    of the memory, and a score is W look-ups.

    Args:
        width: W.
        order: k, 0 to 4; letters with fewer than k before them are not counted.

    >>> psi = MotifMap(width=2, order=1)
    >>> c = Candidates(psi.codes(["ACG"]), [2])
    >>> w = torch.zeros(8 + 16)
    >>> w[0] = 1.0  # A at the first position
    >>> psi.scores(c, w)
    tensor([[0., 1.],
            [-inf, 0.]])
    """

    def __init__(self, width: int = 10, order: int = 2):
        if width < 1:
            raise ValueError(f"width must be at least 1, but it is {width}")
        if not 0 <= order <= 4:
            raise ValueError(f"order must lie in 0..4, but it is {order}")
        self.width, self.order = width, order
        self.n_tuples = 4 ** (order + 1)

    def __repr__(self) -> str:
        return f"MotifMap(width={self.width}, order={self.order})"

    # ---- codes ---------------------------------------------------------------------------------------------------

    def codes(self, sequences: Sequence[str | np.ndarray]) -> Tensor:
        """(T, W) in half precision: for each position of each window of each sequence the number of its letter after the k before it.

        A letter x_i after x_{i−k} … x_{i−1} has the number Σ_m 4^m x_{i−m}, where A, C, G, T count 0 to 3; one with fewer letters before
        it has the number 4^(k+1) + x_i.

        Args:
            sequences: text, or rows of letters counted 0 to 3, each at least W long.

        >>> MotifMap(width=2, order=1).codes(["ACG"]).int()
        tensor([[16,  1],
                [ 1,  6]], dtype=torch.int32)
        """
        letters = [as_letters(x) for x in sequences]
        if len({len(x) for x in letters}) == 1:  # all at once
            letters = [np.stack(letters)]
        windows = [sliding_window_view(self._numbers(x).astype(np.float16), self.width, axis=-1) for x in letters]  # exact: below 2,048
        return torch.from_numpy(np.concatenate([part.reshape(-1, self.width) for part in windows]))

    def _numbers(self, letters: np.ndarray) -> np.ndarray:
        if letters.shape[-1] < self.width:
            raise ValueError(f"a sequence must have at least width = {self.width} letters, but one has {letters.shape[-1]}")
        letters = letters.astype(np.int16)
        number = letters.copy()
        for m in range(1, self.order + 1):
            number[..., m:] += 4**m * letters[..., :-m]
        number[..., : self.order] = self.n_tuples + letters[..., : self.order]
        return number

    def motif(self, w: Tensor) -> Tensor:
        """(W, 4): M, the weights of the letters at each position of the motif."""
        return w.flatten()[: 4 * self.width].reshape(self.width, 4)

    def letter_shares(self, candidates: Candidates, rows: Tensor) -> Tensor:
        """(W, 4): how often each letter occurs at each position of the windows at packed rows."""
        return torch.nn.functional.one_hot(candidates.features[rows].long() % 4, 4).float().mean(dim=0)

    def letter_probabilities(self, w: Tensor, shares: Tensor) -> Tensor:
        """(W, 4): softmax(τ M[j]) at each position j, with the τ ≥ 0 that makes letters of these `shares` (W, 4) most likely.

        The weights of an SVM are logarithms of probabilities up to a factor that the margin sets, not the data.
        """
        scales = torch.cat([torch.zeros(1), torch.logspace(-3, 3, 601)]).to(w)
        every = (scales[:, None, None] * self.motif(w)).log_softmax(dim=2)  # (scales, W, 4)
        return every[(every * shares.to(w)).sum(dim=(1, 2)).argmax()].exp()

    # ---- a joint feature map -------------------------------------------------------------------------------------

    def scores(self, candidates: Candidates, w: Tensor) -> Tensor:
        table = self._table(w.to(torch.promote_types(candidates.features.dtype, torch.float32)))
        own = torch.zeros(candidates.n_candidates, dtype=table.dtype, device=table.device)
        for j, place in enumerate(table):
            own = own + place[candidates.features[:, j].int()]
        none = torch.full_like(own, -torch.inf).index_fill(0, candidates.offsets, 0.0)
        return torch.stack([none, own], dim=1)

    def _table(self, w: Tensor) -> Tensor:
        """(W, 4^(k+1) + 4): what each code adds at each position."""
        motif, background = self.motif(w), w.flatten()[4 * self.width :]
        return torch.cat([motif.repeat(1, self.n_tuples // 4) - background, motif], dim=1)

    def sum(self, candidates: Candidates, y: Tensor, rows: Tensor, weight: Tensor | None = None) -> Tensor:
        weight = torch.ones(len(rows), dtype=torch.float64, device=rows.device) if weight is None else weight.double()
        weight = weight * (y == BOUND)
        return self._added(candidates, rows, weight, torch.zeros_like(rows), 1)[0]

    def vectors(self, candidates: Candidates, y: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        dtype = torch.promote_types(candidates.features.dtype, torch.float32)
        one_each = torch.arange(len(rows), device=rows.device)
        return self._added(candidates, rows, (y == BOUND).to(dtype), one_each, len(rows)), torch.zeros_like(rows)

    def mixtures(self, candidates: Candidates, y: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        dtype = torch.promote_types(candidates.features.dtype, torch.float32)
        rows = weights.nonzero().flatten()
        sample = candidates.sample[rows]
        weight = weights[rows].to(dtype) * (y[sample] == BOUND)
        return self._added(candidates, rows, weight, sample, len(candidates)), torch.zeros_like(y)

    def _added(self, candidates: Candidates, rows: Tensor, weight: Tensor, target: Tensor, n: int) -> Tensor:
        """(n, D): Σ_j weight_j (Ψ(x, 1, h_j) − Ψ(x, 0)) over packed rows (m,), each added to row `target` (m,)."""
        length, places = 4 * self.width + self.n_tuples, torch.arange(self.width, device=rows.device)
        total = torch.zeros(n * length, dtype=weight.dtype, device=rows.device)
        for part in torch.arange(len(rows), device=rows.device).split(ROWS):
            codes = candidates.features[rows[part]].long()  # (m, W)
            first, by = length * target[part, None], weight[part, None].expand_as(codes)
            total.index_add_(0, (first + 4 * places + codes % 4).flatten(), by.flatten())
            counted = codes < self.n_tuples
            total.index_add_(0, (first + 4 * self.width + codes)[counted], -by[counted])
        return total.reshape(n, length)


def as_letters(sequence: str | np.ndarray) -> np.ndarray:
    """A sequence as numbers, A, C, G, T as 0 to 3, in capitals or not; any other letter is refused."""
    if not isinstance(sequence, str):
        return sequence
    # Other characters become a question mark, which is no base.
    found = NUMBERS[np.frombuffer(sequence.encode("ascii", "replace"), np.uint8)]
    wrong = np.flatnonzero(found > 3)
    if len(wrong):
        raise ValueError(f"a sequence must consist of A, C, G and T, but letter {wrong[0] + 1} is {sequence[wrong[0]]!r}")
    return found


NUMBERS = np.full(256, 4, np.uint8)  # 4 is no letter
for _number, _letter in enumerate(LETTERS):
    NUMBERS[[ord(_letter), ord(_letter.lower())]] = _number
