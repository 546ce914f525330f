"""The learners under Lightning: modules, data, callbacks, and a run from a configuration."""

from lvmdc.training.alternating import AlternatingModule
from lvmdc.training.data import LatentDataModule, Samples
from lvmdc.training.end_to_end import EndToEndModule
from lvmdc.training.exact import ExactModule
from lvmdc.training.module import LatentModule
from lvmdc.training.networks import mlp
from lvmdc.training.stochastic import StochasticModule
from lvmdc.training.trusted import trust

__all__ = [
    "AlternatingModule",
    "EndToEndModule",
    "ExactModule",
    "LatentDataModule",
    "LatentModule",
    "Samples",
    "StochasticModule",
    "mlp",
    "trust",
]
