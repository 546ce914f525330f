"""What a detector found in pictures whose labels are known, for another one to learn from."""

from lvmdc.arrays import ArrayLike
from lvmdc.candidates import Candidates
from lvmdc.detection.detector import Detector
from lvmdc.detection.labels import as_table
from lvmdc.detection.suppression import suppressed
from lvmdc.labelled_boxes import LabelledBoxes


def pseudo_labels(detector: Detector, candidates: Candidates, labels: ArrayLike, min_score: float | None = None) -> LabelledBoxes:
    """The best box of each class in each picture that is labelled with it, and, with `min_score`, the others that are so probable.

    With the best ones alone, second objects of a class are background to who learns from the boxes. Others are those of
    `Detector.predict`, after non-maximum suppression, in pictures that are labelled with their class.

    Args:
        labels: (n, K) as in `Detector.fit`.
        min_score: probability from which a box counts beside the best one of its picture and class; None: the best ones alone.

    >>> import torch
    >>> from lvmdc import LSVM
    >>> c = Candidates(torch.tensor([[3.0], [0], [3.0], [0], [0], [0]]), [3, 3], [[0, 0, 2, 2], [4, 0, 6, 2], [8, 0, 9, 2]] * 2)
    >>> detector = Detector(LSVM(C=10.0, init="uniform")).fit(c, [[1], [-1]])
    >>> len(pseudo_labels(detector, c, [[1], [-1]])), pseudo_labels(detector, c, [[1], [-1]], min_score=0.5).box[:, 0].tolist()
    (1, [0.0, 8.0])
    """
    best = detector.locate(candidates, labels)
    if min_score is None:
        return best
    if not 0 <= min_score <= 1:
        raise ValueError(f"min_score must be a probability, or None, but it is {min_score}")
    found = detector.predict(candidates)
    assert found.score is not None
    there = as_table(candidates, labels, "labels")[found.picture, found.label] == 1
    # The best ones are among those found, unless they are improbable: suppression leaves each once.
    return suppressed(LabelledBoxes.concat([best, found[there & (found.score >= min_score)]]), detector.overlap)
