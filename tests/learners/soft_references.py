"""The objectives of EM and M3E as loops over plain numbers, from the definitions of likelihood and entropy."""

import math
from collections.abc import Callable

import numpy as np
from learners.problems import COST, Problem, class_blocks


def scores(p: Problem, w: np.ndarray, psi: Callable[[int, int], np.ndarray] | None = None, lacks: np.ndarray | None = None) -> list:
    """scores[i][y] = the scores of the candidates that class y has of sample i, by candidate index."""
    psi = class_blocks(p) if psi is None else psi
    found = []
    for i in range(len(p.y)):
        rows = [(h, r) for h, r in enumerate(p.of(i))]
        each = [{h: float(w @ psi(r, k)) for h, r in rows if lacks is None or not lacks[r, k]} for k in range(p.n_classes)]
        found.append(each)
    return found


def probabilities(table: list[dict[int, float]]) -> list[dict[int, float]]:
    """P_w(y, h | x) of one sample."""
    peak = max(s for each in table for s in each.values())
    total = math.fsum(math.exp(s - peak) for each in table for s in each.values())
    return [{h: math.exp(s - peak) / total for h, s in each.items()} for each in table]


def nll(p: Problem, table: list, known: list[int] | None = None) -> float:
    """The mean of −log P_w(y_i | x_i), or of −log P_w(y_i, h_i | x_i) where h_i ≥ 0 is known."""
    each = []
    for i, of_sample in enumerate(table):
        own = probabilities(of_sample)[int(p.y[i])]
        each.append(-math.log(own[known[i]] if known is not None and known[i] >= 0 else math.fsum(own.values())))
    return float(np.mean(each))


def entropy(P: dict[int, float], alpha: float) -> float:
    """Rényi's entropy of numbers that need not sum to one."""
    total = math.fsum(P.values())
    if alpha == 1:
        return -math.fsum(q * math.log(q) for q in P.values()) / total
    if math.isinf(alpha):
        return -math.log(max(P.values()))
    peak = max(P.values())  # q^α alone may be too small for a number
    power = alpha * math.log(peak) + math.log(math.fsum((q / peak) ** alpha for q in P.values()))
    return (power - math.log(total)) / (1 - alpha)


def label_cost(name: str, y1: int, y2: int) -> float:
    return COST[y1][y2] if name == "cost" else float(y1 != y2)


def m3e_slack(p: Problem, table: list, alpha: float, name: str = "label", known: list[int] | None = None) -> list[float]:
    """ξ_i = max(0, max_y [Δ(y_i, y) + H(y_i) − H(y)]); where h_i is known, H(y_i) is that of its probability alone."""
    each = []
    for i, of_sample in enumerate(table):
        P, label = probabilities(of_sample), int(p.y[i])
        own = P[label] if known is None or known[i] < 0 else {known[i]: P[label][known[i]]}
        margins = [label_cost(name, label, k) + entropy(own, alpha) - entropy(P[k], alpha) for k in range(p.n_classes) if P[k]]
        each.append(max(0.0, *margins))
    return each


def posterior(of_class: dict[int, float]) -> dict[int, float]:
    """P_w(h | x, y) of one sample."""
    return {h: q for h, q in probabilities([of_class])[0].items()}
