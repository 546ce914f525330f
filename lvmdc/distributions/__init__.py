"""The two distributions: P_w, which predicts, and P_θ, which models what is uncertain about h."""

from lvmdc.distributions.conditional import ConditionalModel, LogLinear, NeuralConditional, Uniform, score_dtype, weighted
from lvmdc.distributions.marginal import ClassFirst, MarginalPrediction, MinEntropyPrediction, Posterior, neg_entropy, neg_entropy_gradient
from lvmdc.distributions.on_samples import Conditional, Delta, Joint, OnSamples
from lvmdc.distributions.prediction import LinearPrediction, NeuralPrediction, Prediction
from lvmdc.distributions.sampled import Sampled, draw, sampled_diversity, sampled_mean

__all__ = [
    "ClassFirst",
    "Conditional",
    "ConditionalModel",
    "Delta",
    "Joint",
    "LinearPrediction",
    "LogLinear",
    "MarginalPrediction",
    "MinEntropyPrediction",
    "NeuralConditional",
    "NeuralPrediction",
    "OnSamples",
    "Posterior",
    "Prediction",
    "Sampled",
    "Uniform",
    "draw",
    "neg_entropy",
    "neg_entropy_gradient",
    "sampled_diversity",
    "sampled_mean",
    "score_dtype",
    "weighted",
]
