"""Picture data sets, embedded and on disk, and their splits."""

from lvmdc.data.cluttered_digits import cluttered_digits
from lvmdc.data.coco import coco
from lvmdc.data.folder import folder
from lvmdc.data.mammals import mammals
from lvmdc.data.pictures import PictureSet
from lvmdc.data.splits import folds, split_by_class
from lvmdc.data.stick_actions import stick_actions
from lvmdc.data.voc_action import voc_action

__all__ = ["PictureSet", "cluttered_digits", "coco", "folder", "folds", "mammals", "split_by_class", "stick_actions", "voc_action"]
