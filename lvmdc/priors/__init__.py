"""What is known of h before learning, from the image alone: log π(h | x)."""

from lvmdc.priors.base import Prior, ProductPrior
from lvmdc.priors.centre import CentrePrior
from lvmdc.priors.common_object import CommonObjectPrior
from lvmdc.priors.object_box import CentredBoxPrior, ObjectBoxPrior
from lvmdc.priors.objectness import ObjectnessPrior
from lvmdc.priors.saliency import SaliencyPrior

__all__ = [
    "CentrePrior",
    "CentredBoxPrior",
    "CommonObjectPrior",
    "ObjectBoxPrior",
    "ObjectnessPrior",
    "Prior",
    "ProductPrior",
    "SaliencyPrior",
]
