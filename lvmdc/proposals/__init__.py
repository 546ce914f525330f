"""Where the candidates of a picture come from."""

from lvmdc.proposals.base import Proposals
from lvmdc.proposals.distinct import distinct
from lvmdc.proposals.file import FileProposals, save_proposals
from lvmdc.proposals.grid import WindowGrid
from lvmdc.proposals.jitter import JitteredBoxes
from lvmdc.proposals.people import PeopleBoxes
from lvmdc.proposals.selective_search import SelectiveSearch

__all__ = ["FileProposals", "JitteredBoxes", "PeopleBoxes", "Proposals", "SelectiveSearch", "WindowGrid", "distinct", "save_proposals"]
