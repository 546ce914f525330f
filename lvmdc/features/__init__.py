"""What a candidate looks like, and the way from pictures to candidates."""

from lvmdc.features.base import Features
from lvmdc.features.build import build_candidates
from lvmdc.features.cache import cache_key, cache_path
from lvmdc.features.cnn import CNN
from lvmdc.features.combined import Concatenated
from lvmdc.features.file import FileFeatures
from lvmdc.features.hog import HOG
from lvmdc.features.kernel_map import KernelMap
from lvmdc.features.length_norm import LengthNorm
from lvmdc.features.regions import Learned, RegionNetwork
from lvmdc.features.small_cnn import SmallCNN
from lvmdc.features.truth import true_candidate

__all__ = [
    "CNN",
    "HOG",
    "Concatenated",
    "Features",
    "FileFeatures",
    "KernelMap",
    "Learned",
    "LengthNorm",
    "RegionNetwork",
    "SmallCNN",
    "build_candidates",
    "cache_key",
    "cache_path",
    "true_candidate",
]
