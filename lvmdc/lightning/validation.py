"""What the stochastic solver refuses at its door."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from lvmdc.candidates import Candidates
from lvmdc.distributions.prediction import module_scores
from lvmdc.learners import DISC, LSVM, LatentLearner
from lvmdc.lightning.data import LatentDataModule
from lvmdc.lightning.sparse import NORMS
from lvmdc.vision.features.regions import Learned


def check_settings(
    learner: LatentLearner,
    prediction: Any,
    conditional: Any,
    warmup_epochs: int,
    patience: int,
    average: float | None,
) -> None:
    """Refuse what the stochastic solver cannot do, before any work."""
    name = type(learner).__name__
    if not isinstance(learner, DISC | LSVM):
        raise ValueError(f"the stochastic solver trains DISC, LSVM and Supervised; {name} alternates whole trainings, so use solver=exact")
    if learner.n_init != 1:
        raise ValueError(f"the stochastic solver takes one start, but n_init is {learner.n_init}; run it with several seeds instead")
    if prediction is not None and learner.joint is not None:
        raise ValueError("prediction and the learner's joint both say how P_w scores: give one of them")
    if conditional is not None and not isinstance(learner, DISC):
        raise ValueError(f"conditional is the P_θ of DISC, but the learner is {name}, which has none")
    if warmup_epochs < 0 or patience < 1:
        raise ValueError(f"warmup_epochs must be at least 0 and patience at least 1, but they are {warmup_epochs} and {patience}")
    if average is not None and average < 0:
        raise ValueError(f"average must be at least 0, or None, but it is {average}")


def check_iterations(learner: LatentLearner) -> None:
    """Refuse what only outer iterations of the exact solver have.

    >>> check_iterations(DISC())
    """
    if isinstance(learner, DISC) and (learner.anneal > learner.beta or learner.theta_solver != "lbfgs"):
        found = f"anneal is {learner.anneal:g} and theta_solver {learner.theta_solver!r}"
        raise ValueError(f"steps on mini-batches have no outer iterations to cool β in, nor Algorithm 2, but {found}; use solver=exact")


def check_norm(norm: str, learner: LatentLearner, prediction: Any, optimizer_w: Any, scheduler: Any) -> None:
    """Refuse norms that there are not, and what does not go with a sparse one."""
    if norm not in NORMS:
        raise ValueError(f"norm must be one of {', '.join(NORMS)}, but it is {norm!r}")
    if norm == "l2":
        return
    if prediction is not None or learner.joint is not None:
        raise ValueError(f"norm={norm!r} is for a linear P_w with one block of weights a class, but prediction= or joint= says otherwise")
    if optimizer_w is not None:
        raise ValueError(f"norm={norm!r} moves w by dual averaging, which makes its zeros, but optimizer_w asks for another way")
    if scheduler is not None and not isinstance(learner, DISC):
        raise ValueError(f"norm={norm!r} moves w by dual averaging, which has no rate, but scheduler would change one")


def check_dual(learner: LatentLearner, scheduler: Any, can: bool, rates: bool) -> None:
    """Refuse what does not go with dual steps on w.

    Args:
        rates: whether θ has an optimizer, and with it a rate.

    >>> check_dual(LSVM(), None, can=True, rates=False)
    """
    if not can:
        raise ValueError("dual=True is for a linear P_w of LSVM, Supervised or DISC, with norm='l2' and without optimizer_w or prediction")
    if learner.cccp == "self_paced":
        raise ValueError("the stochastic solver goes by cccp=strict, full or eager, but it is 'self_paced'; use solver=exact")
    if scheduler is not None and not rates:
        raise ValueError("dual steps have no rate, but scheduler would change one; see optimizer_w and optimizer_theta")


@torch.no_grad()
def check_networks(one: Candidates, n_classes: int, prediction: Any, conditional: Any) -> None:
    """Refuse networks that score another number of classes."""
    for name, network, seen in (("prediction", prediction, one), ("conditional", conditional, one.for_phi())):
        if isinstance(network, nn.Module):
            columns = module_scores(copy.deepcopy(network).eval(), seen).shape[1]
            if columns != n_classes:
                raise ValueError(f"{name} must score the {n_classes} classes of the data, but it scores {columns}")


def check_precision(precision: str) -> None:
    """Refuse half precision that needs its gradients scaled, which several optimizers do not share.

    >>> check_precision("bf16-mixed")
    """
    if precision == "16-mixed":
        raise ValueError("trainer.precision must be bf16-mixed, 32-true or 64-true for solver=end_to_end, but it is 16-mixed")


def check_hold(hold: Any, begin: str, alternate: bool, frozen_epochs: int, options: dict[str, Any]) -> None:
    """Refuse what would move w and θ that are held, or leave nothing to move.

    >>> check_hold("all", "exact", alternate=False, frozen_epochs=0, options={})
    """
    if hold not in (False, True, "all"):
        raise ValueError(f"hold must be false, true or 'all', but it is {hold!r}")
    if not hold:
        return
    if begin != "exact":
        raise ValueError(f"hold keeps h* where the exact solver left it, so that begin must be 'exact', but it is {begin!r}")
    for name in ("optimizer_theta", *(["optimizer_w"] if hold == "all" else [])):
        if options.get(name) is not None:
            raise ValueError(
                f"hold={hold!r} keeps {name.removeprefix('optimizer_')} where the exact solver left it, but {name} would move it"
            )
    if hold == "all" and (alternate or frozen_epochs):
        found = f"they are {alternate} and {frozen_epochs}"
        raise ValueError(f"hold='all' lets the network alone learn, so that alternate must be false and frozen_epochs 0, but {found}")


def check_kind(learned: dict[str, Any], network: bool) -> None:
    """Refuse the P_w of a checkpoint where it is a network here and linear there, or the other way."""
    if (learned["coef"] is None) != network:
        there, here = ("a network", "linear") if learned["coef"] is None else ("linear", "a network")
        raise ValueError(f"the P_w of the checkpoint is {there}, but here it is {here}; see prediction=")


def check_sizes(learned: dict[str, Any], learner: LatentLearner) -> None:
    """Refuse a checkpoint of other classes or features than the data have."""
    for name, mine in (("n_classes", learner.n_classes_), ("n_features", learner.n_features_in_)):
        if learned[name] != mine:
            raise ValueError(f"the checkpoint has {name} = {learned[name]}, but the data have {mine}")


def check_features(data: LatentDataModule, learned: bool) -> None:
    """Refuse data that have no features where none are learned, and those that have some where they would not be looked at."""
    to_learn = isinstance(getattr(data, "features", None), Learned)
    if learned and not to_learn:
        raise ValueError("solver=end_to_end learns features from pixels, so that the data must have features=learned, and images")
    if learned and data.kernel_map is not None:
        raise ValueError("kernel_map is for features that stay as they are, but solver=end_to_end learns them; use kernel_map=none")
    if to_learn and not learned:
        raise ValueError("features=learned are there to be learned, by solver=end_to_end; other solvers need another features=")
