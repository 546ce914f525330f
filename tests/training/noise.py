"""A small random problem as data of a run."""

import torch
from learners.problems import problem
from PIL import Image

from lvmdc.data.candidate_set import CandidateSet


class Noise(CandidateSet):
    """In float64, so that the order of a sum shows in the last digits alone."""

    def __init__(self, phi=0):
        found = problem(5, n=35, d=6, most=7, phi=phi)
        self.known = found.candidates
        super().__init__(["a", "b", "c"], found.y, found.h)

    def candidates(self):
        return self.known

    def subset(self, index):
        part = super().subset(index)
        part.known = self.known.subset(index)
        return part

    def image(self, i):
        return Image.new("RGB", (16, 16))

    def places(self, i):
        return self.known.subset(torch.tensor([i])).boxes
