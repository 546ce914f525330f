"""Bound and unbound sequences of transcription factors on disk, in the format of the latent SVM's first motif finder."""

from pathlib import Path

import numpy as np

from lvmdc.data.motif_map import MotifMap
from lvmdc.data.sequences import SequenceSet
from lvmdc.storage import read_bytes


def motif(
    path: str | Path, protein: str = "052", fold: int = 0, width: int = 10, order: int = 1, per_class: int | None = None
) -> SequenceSet:
    """The sequences of `path/train<protein>_<fold + 1>.data` to train with and those of `test…` to test with, as they are or as `.gz`.

    Where a fold has no test file, it is tested with the sequences of the other folds' training files that its own does not hold: folds
    are divisions of one set into halves, so these are all of its test part but the few that no other fold trains with.

    A file is text: how many sequences it holds, then on each line `name:label:non_background:sequence`, where a label 1 means bound.

    Args:
        protein: the number of the transcription factor, as in the file's name.
        fold: counted from 0.
        order: letters before a letter that the background looks at: 1 counts pairs of letters, as the published program does, which calls
            it order 2.
        per_class: train with the first so many sequences of each class in the file alone, which are the clearest; with all where not given.

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
        chosen = _first_of_each(y, per_class)
        names, y, sequences = [names[i] for i in chosen], [y[i] for i in chosen], [sequences[i] for i in chosen]
    division = np.arange(len(y)), len(y) + np.arange(len(more[1]))
    try:
        return SequenceSet(sequences + more[2], y + more[1], MotifMap(width, order), None, names + more[0], None, division)
    except ValueError as error:
        raise ValueError(f"{own}: {error}") from None


Sequences = tuple[list[str], list[int], list[str]]  # names, labels, letters


def read_sequences(path: str | Path) -> Sequences:
    """Names, labels (0 or 1) and letters of a file, plain or compressed; a line that does not fit the format is refused by its number.

    >>> read_sequences("nowhere.data")
    Traceback (most recent call last):
    FileNotFoundError: nowhere.data does not exist
    """
    path = Path(path)
    data = read_bytes(path)
    try:
        lines = data.decode("ascii").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} cannot be read as text: {error}") from None
    first = lines[0].strip() if lines else ""
    if not first.isdigit() or len(first) > 12:
        raise ValueError(f"{path} must say on its first line how many sequences it holds, but that is {first[:60]!r}")
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


def _first_of_each(y: list[int], per_class: int) -> list[int]:
    """Which are among the first `per_class` of their label."""
    if per_class < 1:
        raise ValueError(f"per_class must be at least 1, but it is {per_class}")
    seen = [0, 0]
    chosen = []
    for i, label in enumerate(y):
        seen[label] += 1
        if seen[label] <= per_class:
            chosen.append(i)
    return chosen


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
