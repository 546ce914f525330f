"""Small random problems, and references that know nothing of the package: plain loops, and a quadratic program that proves itself."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import piqp
import torch
from torch import Tensor

from lvmdc import Candidates, CostLoss, FunctionLoss, LabelLoss, Loss, OverlapLoss, ZeroOneLoss
from lvmdc.feature_maps import JointFeatureMap


@dataclass
class Problem:
    """Samples with one telling candidate each, `h`; `known` of it is up to the test."""

    candidates: Candidates
    y: Tensor
    h: Tensor
    n_classes: int

    def of(self, i: int) -> range:
        """The packed rows of sample i."""
        start = int(self.candidates.offsets[i])
        return range(start, start + int(self.candidates.counts[i]))


def problem(
    seed: int = 0, n: int = 8, d: int = 4, K: int = 3, most: int = 4, dtype: torch.dtype = torch.float64, signal: float = 2.0, phi: int = 0
) -> Problem:
    """n samples of 1 to `most` candidates, all noise but one, which is near its class's mean."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, most + 1, n)
    y = np.concatenate([np.arange(min(K, n)), rng.integers(K, size=max(0, n - K))])
    x, h = rng.normal(size=(counts.sum(), d)), np.array([rng.integers(c) for c in counts])
    x[np.cumsum(counts) - counts + h] += signal * rng.normal(size=(K, d))[y]
    corner = rng.uniform(0, 4, size=(counts.sum(), 2))
    boxes = np.concatenate([corner, corner + rng.uniform(2, 6, size=corner.shape)], axis=1)
    own = rng.normal(size=(counts.sum(), phi)) if phi else None
    candidates = Candidates(torch.as_tensor(x).to(dtype), counts, boxes, None if own is None else torch.as_tensor(own).to(dtype))
    return Problem(candidates, torch.as_tensor(y), torch.as_tensor(h), K)


# ---- losses: the package's, and the same by definition ---------------------------------------------------------------


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    both = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    return width * height / (both - width * height)


COST = [[0.0, 1.0, 0.4], [2.0, 0.0, 0.7], [1.5, 0.2, 0.0]]


def uneven(y1: Tensor, h1: Tensor, y2: Tensor, h2: Tensor) -> Tensor:
    """Neither symmetric nor independent of h where the classes differ."""
    h1, h2 = h1.double(), h2.double()
    inside = (2 * (h1 - h2).clamp(min=0) + (h2 - h1).clamp(min=0)) / 8
    return torch.where(y1 == y2, inside, 0.5 + 0.1 * h1 + 0.05 * h2 + 0.2 * (y1 < y2).double())


def uneven_by_hand(y1: int, h1: int, y2: int, h2: int) -> float:
    return (2 * max(h1 - h2, 0) + max(h2 - h1, 0)) / 8 if y1 == y2 else 0.5 + 0.1 * h1 + 0.05 * h2 + 0.2 * (y1 < y2)


LOSSES: dict[str, Loss] = {
    "zero_one": ZeroOneLoss(),
    "overlap": OverlapLoss(),
    "label": LabelLoss(),
    "cost": CostLoss(COST, OverlapLoss()),
    "function": FunctionLoss(uneven),
}


def delta(name: str, boxes: np.ndarray, y1: int, h1: int, y2: int, h2: int) -> float:
    """Δ by definition; h are indices into the boxes (c, 4) of one sample."""
    if name == "zero_one":
        return float((y1, h1) != (y2, h2))
    if name == "label":
        return float(y1 != y2)
    if name == "function":
        return uneven_by_hand(y1, h1, y2, h2)
    other = COST[y1][y2] if name == "cost" else 1.0
    return 1 - overlap(boxes[h1], boxes[h2]) if y1 == y2 else other


def expected_loss(name: str, p: Problem, posterior: Tensor) -> np.ndarray:
    """(T, K): Δ_i(y, h; θ) (7) by its sum."""
    out = np.zeros((p.candidates.n_candidates, p.n_classes))
    boxes, belief = p.candidates.boxes.double().numpy(), posterior.double().numpy()
    for i in range(len(p.y)):
        rows = p.of(i)
        here = boxes[rows.start : rows.stop]
        for k in range(p.n_classes):
            for h, row in enumerate(rows):
                losses = (belief[r] * delta(name, here, int(p.y[i]), g, k, h) for g, r in enumerate(rows))
                out[row, k] = sum(losses)
    return out


def delta_at(p: Problem, h: Tensor) -> Tensor:
    """(T,): all mass on candidates h (n,)."""
    return torch.zeros(p.candidates.n_candidates, dtype=torch.float64).index_fill(0, p.candidates.offsets + h, 1.0)


def random_posterior(p: Problem, seed: int) -> Tensor:
    """(T,): some probabilities."""
    draw = np.random.default_rng(seed).exponential(size=p.candidates.n_candidates)
    return torch.as_tensor(np.concatenate([draw[p.of(i).start : p.of(i).stop] / draw[p.of(i)].sum() for i in range(len(p.y))]))


def random_h(p: Problem, seed: int) -> Tensor:
    rng = np.random.default_rng(seed)
    return torch.tensor([int(rng.integers(c)) for c in p.candidates.counts.tolist()])


# ---- joint features -----------------------------------------------------------------------------------------------


def class_blocks(p: Problem) -> Callable[[int, int], np.ndarray]:
    """Ψ(row, y): the features in the block of y."""
    x = p.candidates.features.double().numpy()
    return lambda row, k: np.kron(np.eye(p.n_classes)[k], x[row])


class SharedWeights(JointFeatureMap):
    """One weight vector for all classes, a bias each; class k lacks the candidates whose index is k + 1."""

    def __init__(self, n_classes: int):
        self.n_classes = n_classes

    def scores(self, candidates: Candidates, w: Tensor) -> Tensor:
        x = candidates.features
        every = (x @ w[: x.shape[1]].to(x.dtype))[:, None] + w[x.shape[1] :].to(x.dtype)
        return every.masked_fill(self.lacks(candidates), -torch.inf)

    def sum(self, candidates: Candidates, y: Tensor, rows: Tensor, weight: Tensor | None = None) -> Tensor:
        weight = torch.ones(len(rows), dtype=torch.float64) if weight is None else weight
        bias = torch.zeros(self.n_classes, dtype=torch.float64).index_add(0, y, weight)
        return torch.cat([weight @ candidates.features[rows].double(), bias])

    def lacks(self, candidates: Candidates) -> Tensor:
        index = candidates.index(torch.arange(candidates.n_candidates))
        return index[:, None] == torch.arange(1, self.n_classes + 1)


def shared_weights(p: Problem) -> Callable[[int, int], np.ndarray]:
    x = p.candidates.features.double().numpy()
    return lambda row, k: np.concatenate([x[row], np.eye(p.n_classes)[k]])


# ---- (14), solved by another solver ---------------------------------------------------------------------------------


def structural_svm(
    p: Problem,
    losses: np.ndarray,
    h: Tensor,
    C: float,
    psi: Callable[[int, int], np.ndarray] | None = None,
    lacks: np.ndarray | None = None,
) -> tuple[float, np.ndarray]:
    """min ½‖w‖² + C/n Σ_i max_{y,h} [w·Ψ + Δ_i(y,h)] − w·Ψ(y_i,h_i) over all constraints of all samples, by its n-slack dual.

    The answer proves itself: the value at w and the dual value differ by less than 1e-8.
    """
    psi = class_blocks(p) if psi is None else psi
    n, directions, right, owner = len(p.y), [], [], []
    for i in range(n):
        truth = psi(p.of(i)[int(h[i])], int(p.y[i]))
        for row in p.of(i):
            for k in range(p.n_classes):
                if lacks is None or not lacks[row, k]:
                    directions.append(psi(row, k) - truth)
                    right.append(losses[row, k])
                    owner.append(i)
    G, l, owners = np.array(directions), np.array(right), np.array(owner)
    each = (owners[None, :] == np.arange(n)[:, None]).astype(float)
    solver, m = piqp.DenseSolver(), len(l)
    solver.settings.eps_abs = solver.settings.eps_duality_gap_abs = 1e-12
    solver.settings.eps_rel = solver.settings.eps_duality_gap_rel = 1e-12
    quadratic = np.asfortranarray(C / n * G @ G.T)
    empty, none = np.zeros((0, m), order="F"), np.zeros(0)
    solver.setup(quadratic, -l, np.asfortranarray(each), np.ones(n), empty, none, none, np.zeros(m), np.ones(m))
    solver.solve()
    alpha = np.clip(solver.result.x, 0, None)
    alpha = alpha / (each @ alpha)[owners]
    w = -C / n * alpha @ G
    value = 0.5 * w @ w + C / n * sum((G[owners == i] @ w + l[owners == i]).max() for i in range(n))
    dual = C / n * alpha @ l - 0.5 * w @ w
    assert value - dual <= 1e-8 * max(1.0, value), f"the reference did not solve its own problem: {value - dual}"
    return value, w


def scores(p: Problem, w: np.ndarray, psi: Callable[[int, int], np.ndarray] | None = None) -> np.ndarray:
    """(T, K): w·Ψ by loops."""
    psi = class_blocks(p) if psi is None else psi
    return np.array([[w @ psi(row, k) for k in range(p.n_classes)] for row in range(p.candidates.n_candidates)])


def latent_svm_value(p: Problem, losses: np.ndarray, w: np.ndarray, C: float) -> float:
    """(13): ½‖w‖² + C/n Σ_i ξ_i by loops."""
    table, xi = scores(p, w), []
    for i in range(len(p.y)):
        first = max(table[r, k] + losses[r, k] for r in p.of(i) for k in range(p.n_classes))
        xi.append(first - max(table[r, int(p.y[i])] for r in p.of(i)))
    return 0.5 * w @ w + C * float(np.mean(xi))


def softmax_posterior(p: Problem, theta: np.ndarray) -> np.ndarray:
    """(T,): exp(θ·Φ)/Z (5) by loops; θ is (K, d')."""
    x, out = p.candidates.for_phi().features.double().numpy(), np.zeros(p.candidates.n_candidates)
    for i in range(len(p.y)):
        e = np.array([np.exp(theta[int(p.y[i])] @ x[r]) for r in p.of(i)])
        out[p.of(i).start : p.of(i).stop] = e / e.sum()
    return out


def self_diversity(name: str, p: Problem, belief: np.ndarray) -> np.ndarray:
    """(n,): H_i(θ) (8) by its double sum."""
    boxes = p.candidates.boxes.double().numpy()
    out = []
    for i in range(len(p.y)):
        rows, y = p.of(i), int(p.y[i])
        here = boxes[rows.start : rows.stop]
        pairs = ((g, h) for g in range(len(rows)) for h in range(len(rows)))
        out.append(sum(belief[rows[g]] * belief[rows[h]] * delta(name, here, y, g, y, h) for g, h in pairs))
    return np.array(out)
