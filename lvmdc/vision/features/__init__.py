"""Features of candidates, and the way from images to candidates."""

from lvmdc.vision.features.base import Concatenated, Features
from lvmdc.vision.features.build import build_candidates
from lvmdc.vision.features.cache import cache_key, cache_path
from lvmdc.vision.features.cnn import CNN
from lvmdc.vision.features.file import FileFeatures
from lvmdc.vision.features.hog import HOG
from lvmdc.vision.features.kernel_map import KernelMap
from lvmdc.vision.features.networks import SmallCNN
from lvmdc.vision.features.regions import Learned, LengthNorm, RegionNetwork

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
]
