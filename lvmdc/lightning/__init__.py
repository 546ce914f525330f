"""The learners under Lightning: modules, data, checkpoints and callbacks; imported when they are first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {
    "AlternatingModule": "alternating",
    "DetectorModule": "detector",
    "DualModule": "dual",
    "EndToEndModule": "end_to_end",
    "ExactModule": "exact",
    "LatentDataModule": "data",
    "LatentModule": "module",
    "Samples": "data",
    "SoftModule": "alternating",
    "SparseModule": "sparse",
    "mlp": "networks",
    "trust": "trusted",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
