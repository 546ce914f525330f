"""DNA sequences that may hold a motif: the published transcription factors, and embedded planted motifs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor

from lvmdc.arrays import ArrayLike
from lvmdc.candidates import Candidates
from lvmdc.feature_maps import JointFeatureMap
from lvmdc.samples import CandidateSet
from lvmdc.sequences.motif_map import LETTERS, MotifMap, as_letters
from lvmdc.storage.files import read_bytes

CLASSES = ("no motif", "motif")
CELL, HEIGHT, ABOVE = 14, 22, 20  # pixels of a letter across and down, and of the space above it for marks
# A green, C blue, G amber, T red, as in sequence logos; dark enough to read on white.
COLOURS = {"A": (20, 130, 50), "C": (30, 80, 190), "G": (185, 120, 0), "T": (200, 35, 35)}


class SequenceSet(CandidateSet):
    """Sequences x with y = 1 where they hold a motif of `psi.width` letters; h is where it starts.

    Args:
        sequences: text of A, C, G and T.
        y: (n,) 0 or 1.
        psi: the joint feature map to learn with, which defines a candidate's features.
        logo: (W, 4) the probabilities of the letters by position, if the motif is known.

    Other arguments are those of `CandidateSet`.

    >>> pair = SequenceSet(["ACGTA", "TTTTT"], [1, 0], MotifMap(width=3, order=1))
    >>> pair.candidates(), pair.subset([1]).text(0)
    (Candidates(2 samples, 6 candidates of 3 features, boxes, torch.float16, cpu), 'TTTTT')
    """

    per_sample = ("letters",)

    def __init__(
        self,
        sequences: Sequence[str],
        y: ArrayLike,
        psi: MotifMap,
        h: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        groups: ArrayLike | None = None,
        division: tuple[ArrayLike, ArrayLike] | None = None,
        logo: np.ndarray | None = None,
    ):
        super().__init__(CLASSES, y, h, names, groups, division, latent=(False, True))
        if len(sequences) != len(self):
            raise ValueError(f"sequences must have one entry for each of the {len(self)} samples, but it has {len(sequences)}")
        self.letters, self.psi, self.logo = [as_letters(x) for x in sequences], psi, logo

    def candidates(self) -> Candidates:
        """Every window of `psi.width` letters; its box spans its letters, x1 to x2."""
        counts = [len(x) - self.psi.width + 1 for x in self.letters]
        codes = self.psi.codes(self.letters)
        starts = torch.cat([torch.arange(m) for m in counts])
        return Candidates(codes, counts, self._boxes(starts))

    def _boxes(self, starts: Tensor, across: float = 1.0, down: float = 1.0) -> Tensor:
        low = torch.zeros_like(starts, dtype=torch.float32)
        return torch.stack([starts * across, low, (starts + self.psi.width) * across, low + down], dim=1)

    def check_joint(self, joint: JointFeatureMap | None) -> None:
        """The features are codes, which only the same `MotifMap` can read."""
        if repr(joint) != repr(self.psi):
            raise ValueError(f"these sequences need method.joint to be {self.psi}, but it is {joint}; see experiment=motif_finding")

    def text(self, i: int) -> str:
        """Sequence i as letters."""
        return "".join(LETTERS[number] for number in self.letters[i])

    def image(self, i: int) -> Image.Image:
        text = self.text(i)
        image = Image.new("RGB", (CELL * len(text), ABOVE + HEIGHT), (255, 255, 255))
        draw = ImageDraw.Draw(image)
        for place, letter in enumerate(text):
            draw.text(((place + 0.5) * CELL, ABOVE + HEIGHT / 2), letter, fill=COLOURS[letter], anchor="mm", font_size=15)
        return image

    def places(self, i: int) -> Tensor:
        starts = torch.arange(len(self.letters[i]) - self.psi.width + 1)
        return self._boxes(starts, CELL, HEIGHT) + torch.tensor([0.0, ABOVE, 0.0, ABOVE])


def motif(
    path: str | Path, protein: str = "052", fold: int = 0, width: int = 10, order: int = 1, per_class: int | None = None
) -> SequenceSet:
    """The published sequences of a transcription factor: `path/train<protein>_<fold + 1>.data` to train, `test…` to test, plain or `.gz`.

    A fold without a test file is tested with the sequences of the other folds' training files that its own does not hold: folds are
    divisions of one set into halves, so these are all of its test part but the few that no other fold trains with.

    A file is text: the number of sequences, then on each line `name:label:non_background:sequence`, where a label 1 means bound.

    Args:
        protein: the number of the transcription factor, as in the file's name.
        fold: counted from 0.
        order: letters before a letter that the background uses: 1 counts pairs of letters, which the published program calls order 2.
        per_class: train with the first `per_class` sequences of each class in the file, which are the clearest; default all.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part in ("train", "test"):
    ...         _ = Path(folder, f"{part}7_1.data").write_text("2\\na:1:0:ACGTA\\nb:-1:0:TTTTT\\n")
    ...     motif(folder, "7", width=3)
    SequenceSet(4 samples of 2 classes)
    """
    root = Path(path)
    own = _file(root, f"train{protein}_{fold + 1}")
    if own is None:
        raise FileNotFoundError(f"{root} must hold train{protein}_{fold + 1}.data, or the same with .gz, but it does not")
    names, y, sequences = read_sequences(own)
    held_out = _file(root, f"test{protein}_{fold + 1}")
    more = _of_other_folds(root, protein, own, sequences) if held_out is None else read_sequences(held_out)
    for file, letters in ((own, sequences), (held_out or root, more[2])):
        if min(map(len, letters), default=width) < width:
            raise ValueError(f"{file} must hold sequences of at least width = {width} letters, but one has {min(map(len, letters))}")
    if per_class is not None:
        if per_class < 1:
            raise ValueError(f"per_class must be at least 1, but it is {per_class}")
        chosen = np.sort(np.concatenate([np.flatnonzero(np.array(y) == label)[:per_class] for label in (0, 1)]))
        names, y, sequences = [names[i] for i in chosen], [y[i] for i in chosen], [sequences[i] for i in chosen]
    division = np.arange(len(y)), len(y) + np.arange(len(more[1]))
    try:
        return SequenceSet(sequences + more[2], y + more[1], MotifMap(width, order), None, names + more[0], None, division)
    except ValueError as error:
        raise ValueError(f"{own}: {error}") from None


Sequences = tuple[list[str], list[int], list[str]]  # names, labels, letters


def read_sequences(path: str | Path) -> Sequences:
    """Names, labels (0 or 1) and letters of a file, plain or compressed; a line that does not fit the format is refused by its number."""
    path = Path(path)
    data = read_bytes(path)
    try:
        lines = data.decode("ascii").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} cannot be read as text: {error}") from None
    first = lines[0].strip() if lines else ""
    if not first.isdigit() or len(first) > 12:
        raise ValueError(f"{path} must give on its first line the number of sequences, but that is {first[:60]!r}")
    names, y, sequences = [], [], []
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        name, label, _, sequence = [part.strip() for part in line.split(":")] if line.count(":") == 3 else ["", "", "", ""]
        if label not in ("1", "+1", "-1") or not sequence or not set(sequence) <= set("ACGTacgt"):
            form = "name:label:non_background:sequence, label 1 or -1, letters A, C, G, T"
            raise ValueError(f"{path}, line {number}, must be {form}, but it is {line[:60]!r}")
        names.append(f"{name} {number - 1}")
        y.append(int(label != "-1"))
        sequences.append(sequence.upper())
    if len(y) != int(first):
        raise ValueError(f"{path} must hold {int(first)} sequences, as its first line says, but it holds {len(y)}")
    return names, y, sequences


def _file(root: Path, stem: str) -> Path | None:
    return next((file for file in (root / f"{stem}.data", root / f"{stem}.data.gz") if file.is_file()), None)


def _of_other_folds(root: Path, protein: str, own: Path, known: list[str]) -> Sequences:
    seen = set(known)
    names, y, sequences = [], [], []
    files = sorted({*root.glob(f"train{protein}_*.data"), *root.glob(f"train{protein}_*.data.gz")} - {own})
    for file in files:
        for name, label, sequence in zip(*read_sequences(file), strict=True):
            if sequence not in seen:
                seen.add(sequence)
                names.append(f"{file.name} {name}")
                y.append(label)
                sequences.append(sequence)
    if not y:
        test = own.name.replace("train", "test", 1)
        raise FileNotFoundError(f"{root} must hold {test}, or another fold of {own.name} to test with, but it holds neither")
    return names, y, sequences


def planted_motifs(
    seed: int = 0,
    per_class: int = 200,
    length: int = 60,
    consensus: str = "GCTAATTACC",
    purity: float = 0.9,
    width: int | None = None,
    order: int = 2,
) -> SequenceSet:
    """Embedded sequences from one Markov chain of order 2; those of the class `motif` hold a word at a random position.

    Each letter of the word is that of the `consensus` with probability `purity`, or one of the other three: the true logo. The
    probabilities after each pair of letters are drawn once from a Dirichlet distribution, so that the background has common words that are
    no motif. Sequence i of a class is the same whatever `per_class` is.

    Args:
        width, order: of the motif and the Markov chain that learning assumes (see `MotifMap`); default the width of the consensus, 2.

    >>> found = planted_motifs(per_class=2)
    >>> found, found.text(2)[int(found.h[2]) :][:10]
    (SequenceSet(4 samples of 2 classes), 'GCTAATGACC')
    """
    psi, planted = MotifMap(len(consensus) if width is None else width, order), len(consensus)
    room = length - max(planted, psi.width)  # last start of a motif
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
