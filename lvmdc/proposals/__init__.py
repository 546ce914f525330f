"""Where the candidates of a picture come from."""

from lvmdc.proposals.base import Proposals
from lvmdc.proposals.grid import WindowGrid
from lvmdc.proposals.jitter import JitteredBoxes

__all__ = ["JitteredBoxes", "Proposals", "WindowGrid"]
