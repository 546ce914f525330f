"""The cuts of the one-slack cutting plane, kept as selections so that they survive a change of h* or θ."""

import numpy as np
import torch
from torch import Tensor

from lvmdc import distributed
from lvmdc.solvers.hinge import StructuredHinge

IDLE = 15  # master problems that a cut may sit out before it is dropped
ACTIVE = 1e-7  # share of C below which the master does not use a cut


class WorkingSet:
    """Cuts c = (A_c, l_c): the mean Ψ of a selection (ŷ_i, ĥ_i) of one (y, h) a sample, and its mean expected loss.

    A selection is a valid cut of (14) whatever h* and θ are; only its right-hand side l_c and the truth b change. The Gram matrix
    of the A_c grows by one row a cut, that of the directions A_c − b follows from it.
    """

    def __init__(self, hinge: StructuredHinge):
        self.hinge = hinge
        self._psi = torch.zeros(0, hinge.size, dtype=torch.float64, device=hinge.candidates.device)  # (m, D) A_c
        self._chosen = torch.zeros(0, len(hinge.y), dtype=torch.long, device=hinge.y.device)  # (m, n) row · K + class
        self._gram = np.zeros((0, 0))  # (m, m) A_c·A_c'
        self._cross = np.zeros(0)  # (m,) A_c·b
        self._idle = np.zeros(0, dtype=int)
        self._weight = hinge.weight  # that the A_c were made with
        self.loss = np.zeros(0)  # (m,) l_c

    def __len__(self) -> int:
        return len(self.loss)

    def rebase(self, expected_loss: Tensor, truth: Tensor) -> None:
        """Right-hand sides and inner products for a new θ or h*, and for other weights of the samples."""
        if self._weight is not self.hinge.weight:
            self._weight = self.hinge.weight
            self._set_psi()
            self._gram = (self._psi @ self._psi.T).cpu().numpy()
        self._expected_loss, self._truth = expected_loss, truth
        self._square = float(truth @ truth)
        self._cross = (self._psi @ truth).cpu().numpy()
        self.loss = self._mean_loss(self._chosen)

    def add(self, y: Tensor, rows: Tensor) -> None:
        """One more cut: a selection of classes (n,) and packed rows (n,)."""
        psi = self.hinge.mean_psi(y, rows)
        chosen = rows * self._expected_loss.shape[1] + y
        self._psi = torch.cat([self._psi, psi[None]])
        self._chosen = torch.cat([self._chosen, chosen[None]])
        row = (self._psi @ psi).cpu().numpy()
        m = len(self)
        gram = np.empty((m + 1, m + 1))
        gram[:m, :m], gram[m, :], gram[:, m] = self._gram, row, row
        self._gram = gram
        self._cross = np.append(self._cross, float(psi @ self._truth))
        self.loss = np.append(self.loss, self._mean_loss(chosen[None]))
        self._idle = np.append(self._idle, 0)

    @property
    def gram(self) -> np.ndarray:
        """(m, m) inner products of the directions A_c − b."""
        return self._gram - self._cross[:, None] - self._cross[None, :] + self._square

    def combine(self, alpha: np.ndarray) -> tuple[Tensor, float]:
        """The w of the master's dual weights and the dual value, a lower bound of (14); then cuts long idle are dropped."""
        C = self.hinge.C
        weight = torch.from_numpy(alpha).to(self._psi.device)
        w = C * (alpha.sum() * self._truth - weight @ self._psi)
        dual = C * float(alpha @ self.loss) - 0.5 * float(w @ w)
        self._idle = np.where(alpha > ACTIVE, 0, self._idle + 1)
        if (self._idle > IDLE).any():
            self._keep(self._idle <= IDLE)
        return w, dual

    def state(self) -> dict[str, Tensor]:
        """The selections and what cannot be had from them to the last bit: enough to go on as if never interrupted."""
        chosen = distributed.gather(self.hinge.candidates, self._chosen + self._first, "samples", dim=1)
        return {"chosen": chosen, "gram": torch.from_numpy(self._gram), "idle": torch.from_numpy(self._idle)}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Take up the cuts of `state`; `rebase` comes next."""
        self._chosen = distributed.own(self.hinge.candidates, state["chosen"].to(self._chosen.device), "samples", dim=1) - self._first
        self._gram, self._idle = state["gram"].cpu().numpy(), state["idle"].cpu().numpy()
        self._weight = self.hinge.weight
        self._set_psi()

    @property
    def _first(self) -> int:
        """What a selection that the first row of this rank has under class 0 is in the whole set."""
        return distributed.first_row(self.hinge.candidates) * self.hinge.n_classes

    def _set_psi(self) -> None:
        classes = self.hinge.n_classes
        psi = [self.hinge.mean_psi(chosen % classes, chosen // classes) for chosen in self._chosen]
        self._psi = torch.stack(psi) if psi else self._psi

    def _mean_loss(self, chosen: Tensor) -> np.ndarray:
        """(m,): the mean loss of selections (m, n), by the weights of the samples."""
        losses = self._expected_loss.flatten()[chosen].double() * self.hinge.weights
        return distributed.mean(self.hinge.candidates, losses, dim=1).cpu().numpy()

    def _keep(self, mask: np.ndarray) -> None:
        index = torch.from_numpy(np.flatnonzero(mask)).to(self._psi.device)
        self._psi, self._chosen = self._psi[index], self._chosen[index]
        self._gram = self._gram[np.ix_(mask, mask)]
        self._cross, self.loss, self._idle = self._cross[mask], self.loss[mask], self._idle[mask]
