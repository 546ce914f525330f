"""Divisions into training and test parts that were published with a data set."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lvmdc.storage import load_arrays


def published_split(path: str | Path, fold: int, names: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Indices of the training and the test part of a fold, counted from 0, for samples of these names.

    The file is an npz with `images`, the names of its samples, and for each fold k = fold + 1 the arrays `train_k` and `test_k`, which
    count them from 0; mammals/hog.npz is one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/a.npz", images=["a", "b", "c"], train_1=[0, 2], test_1=[1])
    ...     published_split(f"{folder}/a.npz", 0, ["c", "b", "a"])
    (tensor([2, 0]), tensor([1]))
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"split: {path} does not exist")
    parts = f"train_{fold + 1}", f"test_{fold + 1}"
    arrays = load_arrays(path, ("images",), parts, mmap=False)
    if lacking := [part for part in parts if part not in arrays]:
        raise ValueError(f"split: {path} must hold {lacking[0]} for data.fold={fold}, but it does not")
    images, train, test = (arrays[name] for name in ("images", *parts))
    if images.ndim != 1 or images.dtype.kind not in "US":
        raise ValueError(f"split: images of {path} must be names of shape (n,), but it is {images.dtype} of shape {images.shape}")
    images = np.char.decode(images, "utf-8", "replace") if images.dtype.kind == "S" else images
    places = {name: i for i, name in enumerate(names)}
    found = [places.get(str(name), -1) for name in images]
    for part, index in (("train", train), ("test", test)):
        if index.ndim != 1 or index.dtype.kind not in "iu" or len(index) == 0 or index.min() < 0 or index.max() >= len(found):
            raise ValueError(f"split: {part}_{fold + 1} of {path} must count its {len(found)} images from 0, but it does not")
        missing = [str(images[i]) for i in index if found[i] < 0]
        if missing:
            raise ValueError(f"split: {path} names {missing[0]}, which is not among the samples")
    if set(train.tolist()) & set(test.tolist()):
        raise ValueError(f"split: train_{fold + 1} and test_{fold + 1} of {path} must share no image, but they do")
    return torch.tensor([found[i] for i in train]), torch.tensor([found[i] for i in test])
