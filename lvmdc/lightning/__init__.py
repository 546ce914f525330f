"""The learners under Lightning: modules, data, checkpoints and callbacks."""

from lvmdc.lightning.alternating import AlternatingModule, SoftModule
from lvmdc.lightning.data import LatentDataModule, Samples
from lvmdc.lightning.detector import DetectorModule
from lvmdc.lightning.dual import DualModule
from lvmdc.lightning.end_to_end import EndToEndModule
from lvmdc.lightning.exact import ExactModule
from lvmdc.lightning.module import LatentModule
from lvmdc.lightning.networks import mlp
from lvmdc.lightning.sparse import SparseModule
from lvmdc.lightning.trusted import trust

__all__ = [
    "AlternatingModule",
    "DetectorModule",
    "DualModule",
    "EndToEndModule",
    "ExactModule",
    "LatentDataModule",
    "LatentModule",
    "Samples",
    "SoftModule",
    "SparseModule",
    "mlp",
    "trust",
]
