"""The two distributions: P_w, which predicts, and P_θ, which models what is uncertain about h."""

from lvmdc.distributions.conditional import ConditionalModel, Fixed, LogLinear, NeuralConditional, Uniform, score_dtype
from lvmdc.distributions.on_samples import Conditional, Delta, Joint, OnSamples
from lvmdc.distributions.prediction import LinearPrediction, NeuralPrediction, Prediction

__all__ = [
    "Conditional",
    "ConditionalModel",
    "Delta",
    "Fixed",
    "Joint",
    "LinearPrediction",
    "LogLinear",
    "NeuralConditional",
    "NeuralPrediction",
    "OnSamples",
    "Prediction",
    "Uniform",
    "score_dtype",
]
