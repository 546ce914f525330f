"""The solvers of (14) side by side: the duality gap over CPU time and passes, on one convex problem of the mammals.

The problem is the first of a latent SVM: published fold 1, loss [y≠ŷ], one random h* for each photograph. Every solver runs from w = 0 to
each of a row of gaps, anew each time, on one core; a point of a curve is what it took until the gap was proved. A solver is given
up when a gap took ten times what the quickest needed for the smallest.

    python benchmarks/solvers.py [C] [png]
"""

import sys
import time
from collections.abc import Callable

import torch
from mammals import Mammals
from tqdm import tqdm

from lvmdc import LabelLoss
from lvmdc.joint import ClassBlocks
from lvmdc.losses import BoundLoss
from lvmdc.solvers import FrankWolfe, NSlack, OneSlack, Pegasos, StructuredHinge, Truth
from lvmdc.solvers.cccp import ConvexSolver

SOLVERS = {
    "n_slack": NSlack,
    "one_slack": OneSlack,
    "frank_wolfe": FrankWolfe,
    "pegasos": Pegasos,
    "frank_wolfe, step of 2013": lambda hinge: FrankWolfe(hinge, step="towards"),
}
SHARES = [0.3, 0.1, 0.03, 0.01, 0.003, 0.001]  # gaps to reach, as shares of C
LIMIT = 10.0
Row = tuple[float, float, float, float]  # share of C, CPU seconds, passes, value


class Problem:
    """One (14) of the mammals."""

    def __init__(self, C: float, samples: slice | None = None):
        mammals = Mammals()
        index = mammals.published_fold(1)[0]
        index = index if samples is None else index[samples]
        self.candidates, self.y, self.C = mammals.candidates.subset(index), mammals.y[index], C
        draw = torch.rand(len(index), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        self.rows = self.candidates.offsets + (draw * self.candidates.counts).long()

    def curve(self, make: Callable[[StructuredHinge], ConvexSolver], limit: float) -> list[Row]:
        """Where a solver stood when it had proved each of the gaps, until it has taken `limit` CPU seconds."""
        bound, rows = BoundLoss(LabelLoss(), self.candidates, self.y, 6), []
        for share in SHARES:
            hinge = StructuredHinge(self.candidates, self.y, ClassBlocks(6), self.C)
            truth = Truth(hinge, rows=self.rows)
            losses = bound.expected_loss(truth.p.float())
            solver = make(hinge)
            solver.max_iter = 2000
            began = time.process_time()
            solution = solver.solve(losses, truth, hinge.origin(), share * self.C)
            seconds = time.process_time() - began
            if solution.gap > share * self.C:
                break
            rows.append((share, seconds, hinge.passes, solution.value))
            if seconds > limit:
                break
        return rows


def main() -> None:
    torch.set_num_threads(1)
    C = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    few, whole = Problem(C, slice(0, 240, 40)), Problem(C)
    for make in SOLVERS.values():  # what loads or compiles once, does so here
        few.curve(make, limit=1e-6)
    curves: dict[str, list[Row]] = {}
    limit = float("inf")
    with tqdm(SOLVERS.items(), unit="solver") as bar:
        for name, make in bar:
            bar.set_postfix_str(name)
            curves[name] = whole.curve(make, limit)
            if len(curves[name]) == len(SHARES):
                limit = min(limit, LIMIT * curves[name][-1][1])
    print(f"C = {C:g}, {len(whole.y)} photographs, {whole.candidates.n_candidates} windows; CPU seconds (passes) to a gap of …")
    print(f"{'solver':>27}" + "".join(f"{f'{share:g}·C':>15}" for share in SHARES) + f"{'value':>9}")
    for name, rows in curves.items():
        cells = [f"{seconds:.2f} ({passes:.0f})" for _, seconds, passes, _ in rows] + ["–"] * (len(SHARES) - len(rows))
        print(f"{name:>27}" + "".join(f"{cell:>15}" for cell in cells) + f"{rows[-1][3] if rows else float('nan'):>9.3f}")
    reached = {name: rows[-1][1] for name, rows in curves.items() if len(rows) == len(SHARES)}
    if reached:
        print(f"fastest to {SHARES[-1]:g}·C: {min(reached, key=lambda name: reached[name])}")
    draw(curves, sys.argv[2] if len(sys.argv) > 2 else "solvers.png")


def draw(curves: dict[str, list[Row]], path: str) -> None:
    """The gap over CPU time and over passes, both logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
    for axis, column, label in ((axes[0], 1, "CPU seconds"), (axes[1], 2, "passes over the features")):
        for name, rows in curves.items():
            axis.loglog([row[column] for row in rows], [row[0] for row in rows], marker="o", label=name)
        axis.set_xlabel(label)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("duality gap / C")
    axes[1].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
