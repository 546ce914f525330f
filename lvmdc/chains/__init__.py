"""Chains: a latent state at every site of a sequence, S^m values of h that are never listed."""

from lvmdc.chains.conditional import ChainConditional
from lvmdc.chains.disc import ChainDISC
from lvmdc.chains.distribution import ChainDistribution
from lvmdc.chains.feature_map import ChainMap
from lvmdc.chains.hamming import HammingLoss
from lvmdc.chains.lsvm import ChainLSVM
from lvmdc.chains.scores import ChainScores
from lvmdc.chains.sequences import Chains
from lvmdc.chains.viterbi import viterbi

__all__ = [
    "ChainConditional",
    "ChainDISC",
    "ChainDistribution",
    "ChainLSVM",
    "ChainMap",
    "ChainScores",
    "Chains",
    "HammingLoss",
    "viterbi",
]
