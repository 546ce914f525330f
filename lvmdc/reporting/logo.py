"""Sequence logos: what a motif looks like, with letters as high as their information.

T. D. Schneider, R. M. Stephens, Sequence logos: a new way to display consensus sequences, Nucleic Acids Research 18, 1990.
"""

import numpy as np
from PIL import Image

from lvmdc.arrays import ArrayLike, as_tensor
from lvmdc.reporting.figures import DPI, as_image, style

LETTERS = {"A": "#148232", "C": "#1e50be", "G": "#eb9b00", "T": "#c82323"}  # in the colours that logos usually have
LEFT, TOP, RIGHT, BOTTOM = 52, 34, 12, 28  # pixels around the columns


def information(probabilities: ArrayLike) -> np.ndarray:
    """(W,): the bits of each position, 2 + Σ_a p_a log₂ p_a, for the probabilities (W, 4) of A, C, G, T.

    >>> information([[1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0.0, 0.0]]).tolist()
    [2.0, 0.0, 1.0]
    """
    p = as_tensor(probabilities).double().cpu().numpy()
    if p.ndim != 2 or p.shape[1] != 4 or len(p) == 0:
        raise ValueError(f"probabilities must have shape (W, 4), but it has shape {p.shape}")
    if not np.isfinite(p).all() or (p < 0).any() or not np.allclose(p.sum(axis=1), 1, atol=1e-3):
        raise ValueError("probabilities must be finite, not negative, and sum to one at each position")
    return 2 + (p * np.log2(np.where(p > 0, p, 1.0))).sum(axis=1)


def draw_logo(probabilities: ArrayLike, title: str = "", column: int = 44, height: int = 160) -> Image.Image:
    """The logo of a motif: at each position a stack of letters, `information` bits high, each as high as its share p_a, the largest on top.

    Args:
        probabilities: (W, 4) of A, C, G, T at each position.
        title: a line of text above.
        column: pixels across per position.
        height: pixels of two bits, the most that a position can have.

    >>> draw_logo([[0.7, 0.1, 0.1, 0.1]] * 10, "learned").size
    (504, 222)
    """
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties
    from matplotlib.patches import PathPatch
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Bbox, BboxTransform

    p, bits = as_tensor(probabilities).double().cpu().numpy(), information(probabilities)
    width, total = LEFT + column * len(p) + RIGHT, TOP + height + BOTTOM
    with style():
        figure = Figure(figsize=((width + 0.01) / DPI, (total + 0.01) / DPI), dpi=DPI)
        axes = figure.add_axes((LEFT / width, BOTTOM / total, column * len(p) / width, height / total))
        glyphs = [TextPath((0, 0), letter, prop=FontProperties(family="DejaVu Sans", weight="bold")) for letter in LETTERS]
        for position in range(len(p)):
            low = 0.0
            for letter in np.argsort(p[position], kind="stable"):
                high = low + p[position, letter] * bits[position]
                if high > low:
                    place = Bbox([[position + 0.54, low], [position + 1.46, high]])
                    path = glyphs[letter].transformed(BboxTransform(glyphs[letter].get_extents(), place))
                    axes.add_patch(PathPatch(path, color=list(LETTERS.values())[letter], linewidth=0))
                low = high
        axes.set(xlim=(0.5, len(p) + 0.5), ylim=(0, 2), xticks=range(1, len(p) + 1), yticks=(0, 1, 2))
        axes.set_ylabel("bits", fontsize=12)
        axes.set_title(title, loc="left", fontsize=14, pad=10)
        axes.tick_params(axis="x", length=0)
        axes.grid(visible=False)
        return as_image(figure).convert("RGB")
