"""Random images with several objects, and predictions that are near some of them."""

import torch

from lvmdc import LabelledBoxes


def random_scenes(seed=0, n=12, n_classes=3, objects=40, guesses=160, difficult=0.2):
    """True boxes with whole corners, and predictions: half of them are true boxes moved by a few pixels, the others anywhere."""
    g = torch.Generator().manual_seed(seed)

    def whole(low, high, *shape):
        return torch.randint(low, high, shape, generator=g)

    corner = whole(0, 60, objects, 2)
    box = torch.cat([corner, corner + whole(8, 30, objects, 2)], dim=1).float()
    image, label = whole(0, n, objects), whole(0, n_classes, objects)
    truth = LabelledBoxes(image, label, box, difficult=torch.rand(objects, generator=g) < difficult)
    near = whole(0, objects, guesses)
    moved = box[near] + whole(-4, 5, guesses, 4)
    corner = whole(0, 60, guesses, 2)
    free = torch.cat([corner, corner + whole(8, 30, guesses, 2)], dim=1).float()
    is_near = torch.rand(guesses, generator=g) < 0.5
    moved[:, 2:] = torch.maximum(moved[:, 2:], moved[:, :2] + 1)
    found = LabelledBoxes(
        torch.where(is_near, image[near], whole(0, n, guesses)),
        torch.where(is_near, label[near], whole(0, n_classes, guesses)),
        torch.where(is_near[:, None], moved, free),
        score=torch.randperm(guesses, generator=g).double() / guesses,
    )
    return found, truth
