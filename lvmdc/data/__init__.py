"""Data sets, embedded and on disk, of pictures and of other things, and their splits."""

from lvmdc.data.as_scenes import as_scenes
from lvmdc.data.candidate_set import CandidateSet
from lvmdc.data.cluttered_digits import cluttered_digits
from lvmdc.data.coco import coco
from lvmdc.data.coco_scenes import coco_scenes
from lvmdc.data.digit_scenes import digit_scenes
from lvmdc.data.folder import folder
from lvmdc.data.mammals import mammals
from lvmdc.data.mnist import mnist
from lvmdc.data.motif import motif
from lvmdc.data.motif_map import MotifMap
from lvmdc.data.pictures import PictureSet
from lvmdc.data.planted_motifs import planted_motifs
from lvmdc.data.published_split import published_split
from lvmdc.data.rotated_digits import rotated_digits
from lvmdc.data.rotations import RotationSet
from lvmdc.data.scenes import SceneSet, split_scenes
from lvmdc.data.sequences import SequenceSet
from lvmdc.data.sources import Sources
from lvmdc.data.splits import folds, split_by_class
from lvmdc.data.stick_actions import stick_actions
from lvmdc.data.voc_action import voc_action
from lvmdc.data.voc_detection import voc_detection

__all__ = [
    "CandidateSet",
    "MotifMap",
    "PictureSet",
    "RotationSet",
    "SceneSet",
    "SequenceSet",
    "Sources",
    "as_scenes",
    "cluttered_digits",
    "coco",
    "coco_scenes",
    "digit_scenes",
    "folder",
    "folds",
    "mammals",
    "mnist",
    "motif",
    "planted_motifs",
    "published_split",
    "rotated_digits",
    "split_by_class",
    "split_scenes",
    "stick_actions",
    "voc_action",
    "voc_detection",
]
