"""DNA sequences in which a motif may lie."""

from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor

from lvmdc.candidates import ArrayLike, Candidates, as_tensor
from lvmdc.data.candidate_set import CandidateSet
from lvmdc.data.motif_map import LETTERS, MotifMap, as_letters
from lvmdc.joint import JointFeatureMap

CLASSES = ("no motif", "motif")
CELL, HEIGHT, ABOVE = 14, 22, 20  # pixels of a letter across and down, and of the room above it for marks
# A green, C blue, G amber, T red, as in sequence logos since they were first drawn; dark enough to be read on white.
COLOURS = {"A": (20, 130, 50), "C": (30, 80, 190), "G": (185, 120, 0), "T": (200, 35, 35)}


class SequenceSet(CandidateSet):
    """Sequences x with y = 1 where they hold a motif of `psi.width` letters; h is where it starts.

    Args:
        sequences: text of A, C, G and T.
        y: (n,) 0 or 1.
        psi: the joint feature map that is to learn them; it says what a candidate's features are.
        logo: (W, 4) the probabilities of the letters by place, where the motif is known.

    What else is as in `CandidateSet`.

    >>> pair = SequenceSet(["ACGTA", "TTTTT"], [1, 0], MotifMap(width=3, order=1))
    >>> pair.candidates(), pair.subset([1]).text(0)
    (Candidates(2 samples, 6 candidates of 3 features, boxes, torch.float16, cpu), 'TTTTT')
    """

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
        """Every window of `psi.width` letters; its box is the letters that it covers, x1 to x2."""
        counts = [len(x) - self.psi.width + 1 for x in self.letters]
        codes = self.psi.codes(self.letters)
        starts = torch.cat([torch.arange(m) for m in counts])
        return Candidates(codes, counts, self._boxes(starts))

    def _boxes(self, starts: Tensor, across: float = 1.0, down: float = 1.0) -> Tensor:
        low = torch.zeros_like(starts, dtype=torch.float32)
        return torch.stack([starts * across, low, (starts + self.psi.width) * across, low + down], dim=1)

    def check_joint(self, joint: JointFeatureMap | None) -> None:
        """The features are codes, which only the `MotifMap` that made them can read."""
        if repr(joint) != repr(self.psi):
            raise ValueError(f"these sequences need method.joint to be {self.psi}, but it is {joint}; see experiment=motif_finding")

    def text(self, i: int) -> str:
        """Sequence i as letters."""
        return "".join(LETTERS[number] for number in self.letters[i])

    def image(self, i: int) -> Image.Image:
        text = self.text(i)
        picture = Image.new("RGB", (CELL * len(text), ABOVE + HEIGHT), (255, 255, 255))
        draw = ImageDraw.Draw(picture)
        for place, letter in enumerate(text):
            draw.text(((place + 0.5) * CELL, ABOVE + HEIGHT / 2), letter, fill=COLOURS[letter], anchor="mm", font_size=15)
        return picture

    def places(self, i: int) -> Tensor:
        starts = torch.arange(len(self.letters[i]) - self.psi.width + 1)
        return self._boxes(starts, CELL, HEIGHT) + torch.tensor([0.0, ABOVE, 0.0, ABOVE])

    def subset(self, index: ArrayLike) -> Self:
        part = super().subset(index)
        chosen = as_tensor(index).reshape(-1)
        places = (chosen.nonzero().flatten() if chosen.dtype == torch.bool else chosen).tolist()
        part.letters = [self.letters[i] for i in places]
        return part
