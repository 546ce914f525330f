"""Chains: a latent state at every site of a sequence, S^m values of h that are never listed."""

from lvmdc.chains.distribution import ChainConditional, ChainDistribution
from lvmdc.chains.hamming import HammingLoss
from lvmdc.chains.learners import ChainDISC, ChainLSVM
from lvmdc.chains.scores import ChainMap, ChainScores
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
