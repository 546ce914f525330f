"""Proposals: the candidate boxes of an image."""

from lvmdc.vision.proposals.base import Proposals, WindowGrid
from lvmdc.vision.proposals.file import FileProposals, save_proposals
from lvmdc.vision.proposals.jitter import JitteredBoxes
from lvmdc.vision.proposals.people import PeopleBoxes
from lvmdc.vision.proposals.selective_search import SelectiveSearch

__all__ = ["FileProposals", "JitteredBoxes", "PeopleBoxes", "Proposals", "SelectiveSearch", "WindowGrid", "save_proposals"]
