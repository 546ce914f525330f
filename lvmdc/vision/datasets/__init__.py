"""Data sets of images, embedded and on disk."""

from lvmdc.vision.datasets.coco import coco, coco_scenes
from lvmdc.vision.datasets.digits import cluttered_digits, digit_scenes
from lvmdc.vision.datasets.folder import folder
from lvmdc.vision.datasets.images import ImageSet
from lvmdc.vision.datasets.mammals import mammals
from lvmdc.vision.datasets.rotated_digits import RotationSet, rotated_digits
from lvmdc.vision.datasets.stick_figures import stick_actions
from lvmdc.vision.datasets.voc import voc_action, voc_detection

__all__ = [
    "ImageSet",
    "RotationSet",
    "cluttered_digits",
    "coco",
    "coco_scenes",
    "digit_scenes",
    "folder",
    "mammals",
    "rotated_digits",
    "stick_actions",
    "voc_action",
    "voc_detection",
]
