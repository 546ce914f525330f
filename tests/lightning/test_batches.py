"""Mini-batches and the losses of their samples."""

import torch

from lvmdc import ZeroOneLoss
from lvmdc.lightning.batches import TrainingSet
from lvmdc.losses import Loss


def test_a_loss_that_depends_on_rows_finds_them_in_a_batch(problem):
    place = torch.rand(problem.candidates.n_candidates, generator=torch.Generator().manual_seed(3))

    class ByRow(Loss):
        def delta(self, y1, h1, y2, h2):
            return (place[h1.row] - place[h2.row]).abs() + (y1 != y2)

    samples = TrainingSet(problem.candidates, problem.y, ByRow(), 3, problem.p, torch.full_like(problem.y, -1))
    whole, part = samples.batch(torch.arange(4)), samples.batch(torch.tensor([2, 0]))
    expected = whole.loss.diversity(problem.p)[[2, 0]]
    torch.testing.assert_close(part.loss.diversity(part.start), expected)


def test_known_h_and_the_best_of_the_own_class_are_imputed(problem):
    known = torch.tensor([1, -1, -1, int(problem.candidates.offsets[3])])
    batch = TrainingSet(problem.candidates, problem.y, ZeroOneLoss(), 3, problem.p, known)
    scores = torch.randn(problem.candidates.n_candidates, 3, generator=torch.Generator().manual_seed(0))
    first, rows = 0, []
    for i, count in enumerate(problem.candidates.counts.tolist()):
        rows.append(int(known[i]) if known[i] >= 0 else first + int(scores[first : first + count, problem.y[i]].argmax()))
        first += count
    assert batch.whole().impute(scores).nonzero()[:, 0].tolist() == rows
