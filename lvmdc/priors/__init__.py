"""What is known of h before learning, from the image alone: log π(h | x)."""

from lvmdc.priors.base import Prior, ProductPrior
from lvmdc.priors.centre import CentrePrior
from lvmdc.priors.objectness import ObjectnessPrior

__all__ = ["CentrePrior", "ObjectnessPrior", "Prior", "ProductPrior"]
