"""The learners under Lightning: modules, data, checkpoints and callbacks."""

from lvmdc.lightning.alternating import AlternatingModule
from lvmdc.lightning.data import LatentDataModule, Samples
from lvmdc.lightning.detector import DetectorModule
from lvmdc.lightning.end_to_end import EndToEndModule
from lvmdc.lightning.exact import ExactModule
from lvmdc.lightning.module import LatentModule
from lvmdc.lightning.networks import mlp
from lvmdc.lightning.stochastic import StochasticModule
from lvmdc.lightning.trusted import trust

__all__ = [
    "AlternatingModule",
    "DetectorModule",
    "EndToEndModule",
    "ExactModule",
    "LatentDataModule",
    "LatentModule",
    "Samples",
    "StochasticModule",
    "mlp",
    "trust",
]
