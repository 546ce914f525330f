"""One training of the protocol, and the key that its result is kept under."""

from __future__ import annotations

import hashlib
import json
import pkgutil
from dataclasses import asdict, dataclass
from typing import Any

from lvmdc.learners import LatentLearner
from lvmdc.losses import Loss
from lvmdc.reproduction.division import Division

FORMAT = 1  # raise it when the same settings mean another run, and old results are left alone

Plain = str | int | float | bool | None
Settings = tuple[tuple[str, Plain], ...]  # names and values of a learner's arguments, sorted by name


@dataclass(frozen=True)
class Run:
    """A learner with all of its arguments, a loss, a division and the data: what decides a result, and nothing else.

    Args:
        method: what the figure calls the learner.
        learner: where its class is, `lvmdc.DISC`.
        loss: what the figure calls the loss.
        loss_spec: how the loss is made, as JSON: `{"_target_": "lvmdc.OverlapLoss"}`.
        settings: arguments of the learner.
        point: those of them that are searched over.
        division: what it learns from and is measured on.
        data: the content key of the data.
        before: smaller C, in order, that the training comes through on its way; none: it starts anew.

    >>> spec = '{"_target_": "lvmdc.ZeroOneLoss"}'
    >>> run = Run("LSVM", "lvmdc.LSVM", "zero_one", spec, (("C", 10.0), ("seed", 0)), (("C", 10.0),), Division(fold=0), "data")
    >>> run.make_learner()
    LSVM(C=10.0, loss=ZeroOneLoss())
    >>> run.inner, run.key
    (False, 'c7d8b3e71003442463be8f3a')
    """

    method: str
    learner: str
    loss: str
    loss_spec: str
    settings: Settings
    point: Settings
    division: Division
    data: str
    before: tuple[float, ...] = ()

    @property
    def inner(self) -> bool:
        """Whether it only serves to choose hyperparameters."""
        return self.division.inner is not None

    @property
    def key(self) -> str:
        """A hash of all that decides the result. What the figure calls things, and what else is searched, is not among it."""
        decides = [FORMAT, self.learner, json.loads(self.loss_spec), dict(self.settings), asdict(self.division), self.data]
        decides += [self.before] if self.before else []
        return hashlib.sha256(json.dumps(_normal(decides), sort_keys=True).encode()).hexdigest()[:24]

    def setting(self, name: str, default: Plain = None) -> Plain:
        """The value of one of the learner's arguments."""
        return dict(self.settings).get(name, default)

    def describe(self) -> dict[str, Any]:
        """The run as plain data."""
        return asdict(self) | {"settings": dict(self.settings), "point": dict(self.point), "loss_spec": json.loads(self.loss_spec)}

    def make_loss(self) -> Loss:
        """The loss that it learns and is measured by."""
        return make_loss(self.loss_spec)

    def make_learner(self, **others: Any) -> LatentLearner:
        """The learner, not yet fitted; `others` replace or add arguments that do not decide the result."""
        return pkgutil.resolve_name(self.learner)(loss=self.make_loss(), **(dict(self.settings) | others))


def make_loss(spec: str) -> Loss:
    """A loss from its JSON.

    >>> make_loss('{"_target_": "lvmdc.OverlapLoss"}')
    OverlapLoss()
    """
    arguments = json.loads(spec)
    return pkgutil.resolve_name(arguments.pop("_target_"))(**arguments)


def _normal(value: Any) -> Any:
    """1 and 1.0 are one number: they must not be two runs."""
    if isinstance(value, dict):
        return {name: _normal(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_normal(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
