"""The master problem of the cutting plane: a small dense quadratic program, handed to a library and checked."""

import numpy as np
import piqp


def solve_master(gram: np.ndarray, loss: np.ndarray, C: float) -> np.ndarray:
    """The α ≥ 0, Σα ≤ 1 that maximises lᵀα − C/2 αᵀGα, the dual of the one-slack problem divided by C.

    Args:
        gram: (m, m) inner products g_c·g_c' of the cuts, positive semidefinite and often singular.
        loss: (m,) the right-hand sides l_c.

    >>> solve_master(np.array([[1.0]]), np.array([0.5]), C=1.0).round(6)
    array([0.5])
    """
    m = len(loss)
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_duality_gap_abs = 1e-10
    lower, upper = np.zeros(m), np.ones(m)
    solver.setup(np.asfortranarray(C * gram), -loss, None, None, np.ones((1, m), order="F"), np.array([-np.inf]), np.ones(1), lower, upper)
    status = solver.solve()
    # The last digits may be out of reach on a singular matrix; the caller measures the gap of what comes out, so that an
    # inexact α can cost iterations but never a wrong answer. A solve that failed altogether must not pass.
    if status not in (piqp.PIQP_SOLVED, piqp.PIQP_MAX_ITER_REACHED, piqp.PIQP_NUMERICS) or not np.isfinite(solver.result.x).all():
        raise RuntimeError(f"the master problem with {m} cuts was not solved: {status}")
    alpha = np.clip(solver.result.x, 0.0, 1.0)
    return alpha / max(1.0, alpha.sum())
