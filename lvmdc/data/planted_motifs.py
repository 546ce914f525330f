"""Embedded motif finding: random sequences, half of which have a motif planted somewhere."""

import numpy as np

from lvmdc.data.motif_map import LETTERS, MotifMap
from lvmdc.data.sequences import SequenceSet


def planted_motifs(
    seed: int = 0,
    per_class: int = 200,
    length: int = 60,
    consensus: str = "GCTAATTACC",
    purity: float = 0.9,
    width: int | None = None,
    order: int = 2,
) -> SequenceSet:
    """Sequences from one Markov chain of order 2; in those of the class `motif` a word stands at a random place.

    Each letter of the word is that of the `consensus` with probability `purity`, or one of the other three: the true logo. The letters
    after each pair of letters are drawn once from a Dirichlet distribution, so that the background has its own common words, which are no
    motif. Sequence i of a class is the same whatever `per_class` is.

    Args:
        width, order: of the motif and of the Markov chain which learning assumes (see `MotifMap`), not of those which sequences are drawn
            from; the width of the consensus where not given.

    >>> found = planted_motifs(per_class=2)
    >>> found, found.text(2)[int(found.h[2]) :][:10]
    (SequenceSet(4 samples of 2 classes), 'GCTAATGACC')
    """
    psi, planted = MotifMap(len(consensus) if width is None else width, order), len(consensus)
    room = length - max(planted, psi.width)  # where a motif may start
    if per_class < 1:
        raise ValueError(f"per_class must be at least 1, but it is {per_class}")
    if room < 0:
        raise ValueError(f"length must be at least {length - room}, the width of the motif, but it is {length}")
    if not 0.25 < purity <= 1:
        raise ValueError(f"purity must lie above 0.25, which is chance, and not above 1, but it is {purity}")
    if not set(consensus) <= set(LETTERS):
        raise ValueError(f"consensus must consist of A, C, G and T, but it is {consensus!r}")
    logo = np.full((planted, 4), (1 - purity) / 3)
    logo[np.arange(planted), [LETTERS.index(c) for c in consensus]] = purity
    after = np.random.default_rng(seed).dirichlet(np.full(4, 5.0), size=16)  # (pairs, letters)
    sequences, y, h = [], [], []
    for label in (0, 1):
        for i in range(per_class):
            rng = np.random.default_rng([seed, label, i])
            letters = _chain(rng, after, length)
            start = 0
            if label:
                start = int(rng.integers(0, room + 1))
                letters[start : start + planted] = [rng.choice(4, p=place) for place in logo]
            sequences.append("".join(LETTERS[k] for k in letters))
            y.append(label)
            h.append(start)
    names = [f"sequence {i}" for i in range(len(y))]
    return SequenceSet(sequences, y, psi, h, names, logo=logo)


def _chain(rng: np.random.Generator, after: np.ndarray, length: int) -> list[int]:
    """Letters of a Markov chain of order 2, the first two even."""
    letters = rng.integers(0, 4, 2).tolist()[:length]
    edges = after.cumsum(axis=1)
    for chance in rng.random(max(0, length - 2)):
        letters.append(min(int(np.searchsorted(edges[4 * letters[-2] + letters[-1]], chance, side="right")), 3))
    return letters
