"""Ground truth of h: the candidates that overlap true boxes best."""

import torch
from torch import Tensor

from lvmdc.boxes import LabelledBoxes, box_area, box_iou
from lvmdc.candidates import Candidates
from lvmdc.storage.mapped import take


def ground_truth_candidates(candidates: Candidates, truth: LabelledBoxes, n_classes: int) -> Tensor:
    """(n, K) the candidate that overlaps the largest object of each class best, −1 where an image has none that is not difficult.

    >>> candidates = Candidates(torch.zeros(2, 1), [2], boxes=[[0, 0, 2, 2], [4, 0, 8, 4]])
    >>> ground_truth_candidates(candidates, LabelledBoxes([0, 0], [1, 1], [[0, 0, 2, 2], [4, 0, 8, 3]]), n_classes=2)
    tensor([[-1,  1]])
    """
    if candidates.boxes is None:
        raise ValueError("candidates must have boxes, but candidates.boxes is None")
    h = torch.full((len(candidates), n_classes), -1, device=candidates.device)
    easy = truth[~truth.difficult].to(candidates.device)
    easy = easy[box_area(easy.box).argsort(stable=True)]  # the largest of a class comes last, and stays
    first, count = candidates.offsets.tolist(), candidates.counts.tolist()
    for i, k, box in zip(easy.image.tolist(), easy.label.tolist(), easy.box, strict=True):
        h[i, k] = box_iou(candidates.boxes[first[i] : first[i] + count[i]], box.to(candidates.boxes)).argmax()
    return h


def ground_truth_objects(candidates: Candidates, truth: LabelledBoxes, k: int, iou: float = 0.5) -> tuple[Candidates, Tensor, Tensor]:
    """Ground truth of every object of class k, not only of the largest in an image: an image comes once for each of them.

    Each time without the candidates that show another object of the class, by an overlap of `iou` and more than this one: they would be
    wrong h, though they are right. An image without an object of the class that is not difficult comes once, as it is.

    Returns:
        The candidates of the m images; (m,) which image each is; (m,) h, the candidate that overlaps the object best, or −1.

    >>> candidates = Candidates(torch.arange(3.0)[:, None], [3], boxes=[[0, 0, 2, 2], [2, 0, 4, 2], [4, 0, 8, 4]])
    >>> found, image, h = ground_truth_objects(candidates, LabelledBoxes([0, 0], [0, 0], [[0, 0, 2, 2], [4, 0, 8, 3]]), 0)
    >>> found.features.flatten().tolist(), found.counts.tolist(), image.tolist(), h.tolist()
    ([0.0, 1.0, 1.0, 2.0], [2, 2], [0, 0], [0, 1])
    """
    if candidates.boxes is None:
        raise ValueError("candidates must have boxes, but candidates.boxes is None")
    own = truth.of_label(k).to(candidates.device)
    rows, image, h = [], [], []
    for i, all_rows in enumerate(torch.arange(candidates.n_candidates, device=candidates.device).split(candidates.counts.tolist())):
        here = own.of_image(i)
        overlap = box_iou(candidates.boxes[all_rows, None], here.box.to(candidates.boxes))  # (candidates, objects)
        easy = (~here.difficult).nonzero().flatten().tolist()
        for j in easy:
            others = overlap.index_fill(1, torch.tensor([j], device=overlap.device), 0.0).amax(dim=1)
            best = int(overlap[:, j].argmax())
            kept = (others < iou) | (others <= overlap[:, j])
            kept[best] = True
            rows.append(all_rows[kept])
            h.append(int(kept[:best].sum()))
        if not easy:
            rows.append(all_rows)
            h.append(-1)
        image += [i] * max(1, len(easy))
    joined, counts = torch.cat(rows), torch.tensor([len(part) for part in rows])
    phi = None if candidates.phi is None else take(candidates.phi, joined)
    prior = None if candidates.prior is None else candidates.prior[joined]
    found = Candidates(take(candidates.features, joined), counts, candidates.boxes[joined], phi, prior)
    return found, torch.tensor(image, device=candidates.device), torch.tensor(h, device=candidates.device)
