"""Sequences: data sets and the joint feature map of motif finding."""

from lvmdc.sequences.motif import SequenceSet, motif, planted_motifs
from lvmdc.sequences.motif_map import MotifMap

__all__ = ["MotifMap", "SequenceSet", "motif", "planted_motifs"]
