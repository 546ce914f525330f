"""The solvers of (14) side by side: the duality gap over CPU time and passes, on convex problems of the embedded digits and the mammals.

The problems are the first w block of a latent SVM, loss [y≠ŷ] from one random h* for each image, and those of DISC, the 0/1 and the
overlap loss expected under a uniform P_θ with the same h*; of the mammals published fold 1. Every solver runs from w = 0 to each of a row
of gaps, from the start each time, on one core; a point of a curve is what it took until the gap was proved. A solver stops when a
gap took ten times what the quickest needed for the smallest.

    python benchmarks/solvers.py [C] [png]
"""

import sys
import time
from collections.abc import Callable

import torch
from digits import Digits
from mammals import Mammals
from record import record
from tqdm import tqdm

from lvmdc import Candidates, LabelLoss, OverlapLoss, ZeroOneLoss
from lvmdc.feature_maps import ClassBlocks
from lvmdc.losses import ExpectedLoss, Loss
from lvmdc.reporting.figures import COLOURS, MARKERS
from lvmdc.solvers import ImputedLatents, NSlack, OneSlack, StructuredHinge
from lvmdc.solvers.w_block import ConvexSolver

SOLVERS = {
    "n_slack": NSlack,
    "one_slack": OneSlack,
}
LOSSES: dict[str, tuple[Loss, bool]] = {  # and whether P_θ is uniform; all mass on h* where it is not
    "LSVM, label": (LabelLoss(), False),
    "DISC, 0/1": (ZeroOneLoss(), True),
    "DISC, overlap": (OverlapLoss(), True),
}
SHARES = [0.3, 0.1, 0.03, 0.01, 0.003, 0.001]  # gaps to reach, as shares of C
LIMIT = 10.0
Row = tuple[float, float, float, float]  # share of C, CPU seconds, passes, value
Curves = dict[str, list[Row]]


class Problem:
    """One (14): a random h* for each sample, and the loss expected from it, or from a uniform P_θ."""

    def __init__(self, candidates: Candidates, y: torch.Tensor, C: float, loss: Loss, uniform: bool):
        self.candidates, self.y, self.C, self.n_classes = candidates, y, C, int(y.max()) + 1
        draw = torch.rand(len(y), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        self.rows = candidates.offsets + (draw * candidates.counts).long()
        p = 1.0 / candidates.counts[candidates.sample] if uniform else torch.zeros(candidates.n_candidates).index_fill(0, self.rows, 1.0)
        self.losses = ExpectedLoss(loss, candidates, y, self.n_classes).expected_loss(p.float())

    def curve(self, make: Callable[[StructuredHinge], ConvexSolver], limit: float) -> list[Row]:
        """Where a solver stood when it had proved each of the gaps, until it has taken `limit` CPU seconds."""
        rows: list[Row] = []
        for share in SHARES:
            hinge = StructuredHinge(self.candidates, self.y, ClassBlocks(self.n_classes), self.C)
            truth, solver = ImputedLatents(hinge, rows=self.rows), make(hinge)
            solver.max_iter = 2000
            began = time.process_time()
            solution = solver.solve(self.losses, truth, hinge.origin(), share * self.C)
            seconds = time.process_time() - began
            if solution.gap > share * self.C:
                break
            rows.append((share, seconds, hinge.passes, solution.value))
            if seconds > limit:
                break
        return rows

    def curves(self, title: str) -> Curves:
        """Those of all solvers; the quickest to the smallest gap says how long the others may take."""
        curves, limit = {}, float("inf")
        with tqdm(SOLVERS.items(), unit="solver") as bar:
            for name, make in bar:
                bar.set_postfix_str(f"{title}: {name}")
                curves[name] = self.curve(make, limit)
                if len(curves[name]) == len(SHARES):
                    limit = min(limit, LIMIT * curves[name][-1][1])
        return curves


def problems(C: float) -> dict[str, Problem]:
    """Those of both data sets."""
    digits, mammals = Digits(), Mammals()
    index = mammals.published_fold(1)[0]
    sets = {"digits": (digits.candidates, digits.y), "mammals": (mammals.candidates.subset(index), mammals.y[index])}
    return {f"{title}: {name}": Problem(*part, C, *kind) for title, part in sets.items() for name, kind in LOSSES.items()}


def table(title: str, problem: Problem, curves: Curves) -> str:
    """CPU seconds and passes to each gap, and who was first at the last."""
    size = f"{len(problem.y)} images, {problem.candidates.n_candidates} windows of {problem.candidates.n_features} numbers"
    lines = [f"{title}, C = {problem.C:g}: {size}; CPU seconds (passes) to a gap of …"]
    lines.append(f"{'solver':>27}" + "".join(f"{f'{share:g}·C':>15}" for share in SHARES) + f"{'value':>9}")
    for name, rows in curves.items():
        cells = [f"{seconds:.2f} ({passes:.0f})" for _, seconds, passes, _ in rows] + ["–"] * (len(SHARES) - len(rows))
        lines.append(f"{name:>27}" + "".join(f"{cell:>15}" for cell in cells) + f"{rows[-1][3] if rows else float('nan'):>9.3f}")
    reached = {name: rows[-1][1] for name, rows in curves.items() if len(rows) == len(SHARES)}
    if reached:
        lines.append(f"fastest to {SHARES[-1]:g}·C: {min(reached, key=lambda name: reached[name])}")
    return "\n".join(lines)


def draw(found: dict[str, Curves], C: float, path: str) -> None:
    """The gap over CPU time and over passes, both logarithmic; a row of panels for each loss, two panels for each data set."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullFormatter

    figure, panels = plt.subplots(
        len(LOSSES), 2 * len(found) // len(LOSSES), figsize=(15, 2.8 * len(LOSSES)), sharey=True, layout="constrained"
    )
    pairs = panels.reshape(len(LOSSES), -1, 2).swapaxes(0, 1).reshape(-1, 2)  # in the order of the problems
    for (title, curves), pair in zip(found.items(), pairs, strict=True):
        for axes, column, label in zip(pair, (1, 2), ("CPU seconds", "passes over the features"), strict=True):
            for (name, points), colour, marker in zip(curves.items(), COLOURS, MARKERS, strict=False):
                axes.loglog([point[column] for point in points], [point[0] for point in points], color=colour, marker=marker, label=name)
            axes.xaxis.set_minor_formatter(NullFormatter())  # within a decade its labels would lie over each other
            axes.set_xlabel(label)
            axes.grid(alpha=0.3)
        pair[0].set_title(f"{title}, C = {C:g}")
    for axes in panels[:, 0]:
        axes.set_ylabel("duality gap / C")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(SOLVERS))
    figure.savefig(path, dpi=90)


def main() -> None:
    torch.set_num_threads(1)
    C = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    posed = problems(C)
    digits = posed["digits: LSVM, label"]
    few = torch.arange(0, len(digits.y), 30)
    warm = Problem(digits.candidates.subset(few), digits.y[few], C, LabelLoss(), uniform=False)
    for make in SOLVERS.values():  # what loads or compiles once, does so here
        warm.curve(make, limit=1e-6)
    found = {title: problem.curves(title) for title, problem in posed.items()}
    for title, curves in found.items():
        for name, rows in curves.items():
            for share, seconds, passes, value in rows:
                record(problem=title, solver=name, C=C, gap=share * C, seconds=seconds, passes=passes, value=value)
    print("\n\n".join(table(title, posed[title], curves) for title, curves in found.items()))
    draw(found, C, sys.argv[2] if len(sys.argv) > 2 else "solvers.png")


if __name__ == "__main__":
    main()
