"""Which samples a run learns from, and which it is measured on."""

from __future__ import annotations

import difflib
import hashlib
import inspect
import itertools
import json
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import Tensor

from lvmdc.learners import LatentLearner
from lvmdc.losses import Loss
from lvmdc.samples import split_by_class


@dataclass(frozen=True)
class Division:
    """Fold `fold` of the paper's 60/40 divisions by class or, with `inner`, a division of that fold's training part alone.

    Hyperparameters are chosen by inner divisions: what they hold out is never a test sample of the fold.

    Args:
        fold: which of the independent divisions.
        fraction: how much of every class trains.
        seed: of the divisions.
        inner: which division of the training part; None for the fold itself.
        inner_fraction: how much of every class of the training part trains then.

    >>> import torch
    >>> y = torch.tensor([0] * 10 + [1] * 10)
    >>> train, test = Division(fold=0).parts(y)
    >>> kept, held_out = Division(fold=0, inner=1, inner_fraction=0.75).parts(y)
    >>> len(train), len(test), len(kept), len(held_out), set(kept.tolist()) | set(held_out.tolist()) == set(train.tolist())
    (12, 8, 8, 4, True)
    """

    fold: int
    fraction: float = 0.6
    seed: int = 0
    inner: int | None = None
    inner_fraction: float | None = None

    def parts(self, y: Tensor, groups: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Indices of the samples that train and of those held out; near duplicates, of one of the `groups`, stay on one side."""
        train, test = split_by_class(y, self.fraction, self.fold, self.seed, groups)
        if self.inner is None or self.inner_fraction is None:
            return train, test
        own = None if groups is None else groups[train]
        kept, held_out = split_by_class(y[train], self.inner_fraction, self.inner, self.seed + 1 + self.fold, own)
        return train[kept], train[held_out]


def check_divisions(divisions: set[Division], y: Tensor, groups: Tensor | None = None) -> None:
    """Refuse classes too small to be divided, before any learning.

    >>> import torch
    >>> check_divisions({Division(fold=0)}, torch.tensor([0, 0, 1]))
    Traceback (most recent call last):
    ValueError: fold 0: class 1 of y has too few samples to stand in both the training and the test part: 1 samples
    """
    for division in sorted(divisions, key=lambda d: (d.fold, -1 if d.inner is None else d.inner)):
        try:
            division.parts(y, groups)
        except ValueError as error:
            where = f"fold {division.fold}" + ("" if division.inner is None else f", validation fold {division.inner}")
            raise ValueError(f"{where}: {error}") from None


# One training of the protocol, and the key that its result is kept under.

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


# What section 6 of the paper does, as data: methods, losses, grids, folds.

RESERVED = ("loss", "seed")  # arguments that the protocol itself gives a learner


@dataclass(frozen=True)
class Method:
    """A learner, its fixed arguments, and the grid of those that are searched over; the grid goes before what is fixed.

    >>> method = Method("DISC", "lvmdc.DISC", {"J": 0.1, "tol": 1e-3}, {"C": [1, 10], "J": [0.1, 0.01]})
    >>> list(method.points())[1]
    (('C', 1), ('J', 0.01))
    """

    name: str
    learner: str
    settings: Mapping[str, Plain] = field(default_factory=dict)
    grid: Mapping[str, Sequence[Plain]] = field(default_factory=dict)

    def points(self) -> Iterator[Settings]:
        """Every combination of the grid's values, the first argument varying slowest."""
        for values in itertools.product(*self.grid.values()):
            yield tuple(sorted(zip(self.grid, values, strict=True)))

    def check(self) -> None:
        """Refuse a learner that there is not, arguments that it does not take, values that it refuses."""
        where = f"methods.{self.name}"
        try:
            kind = pkgutil.resolve_name(self.learner)
        except (ImportError, AttributeError, ValueError):
            raise ValueError(f"{where}.learner must name a learner such as lvmdc.DISC, but it is {self.learner!r}") from None
        if not (inspect.isclass(kind) and issubclass(kind, LatentLearner)):
            raise ValueError(f"{where}.learner must name a learner such as lvmdc.DISC, but {self.learner} is none")
        taken = [name for name in inspect.signature(kind).parameters if name not in RESERVED]
        for part, names in (("settings", self.settings), ("grid", self.grid)):
            for name in names:
                if name not in taken:
                    near = difflib.get_close_matches(name, taken, n=1, cutoff=0.5)
                    hint = f": did you mean {near[0]!r}?" if near else f"; it takes {', '.join(taken)}"
                    raise ValueError(f"{where}.{part}.{name} is not an argument of {kind.__name__}{hint}")
        for name, values in self.grid.items():
            if isinstance(values, str) or not isinstance(values, Sequence) or not values:
                raise ValueError(f"{where}.grid.{name} must be a list of at least one value, but it is {values!r}")
            odd = [value for value in values if not isinstance(value, str | int | float | None)]
            if odd:
                raise ValueError(f"{where}.grid.{name} must hold plain values, numbers or words, but it holds {odd[0]!r}")
            if len(set(values)) < len(values):
                raise ValueError(f"{where}.grid.{name} must hold different values, but it is {list(values)}")
        for point in self.points():
            arguments: dict[str, Any] = dict(self.settings) | dict(point)
            try:
                kind(**arguments).check_parameters()
            except (TypeError, ValueError) as error:
                raise ValueError(f"{where}: {error}") from None


@dataclass(frozen=True)
class Protocol:
    """Methods × losses × folds, and how often the training part is divided again to choose hyperparameters honestly.

    Args:
        methods: what is compared.
        losses: name → arguments of the loss, `_target_` being its class.
        folds: how many of the independent divisions.
        fraction: how much of every class trains.
        split_seed: of the divisions.
        seed: of the first start in fold 0; fold k starts from seed + 100·k, the same for all methods.
        inner_folds: divisions of each training part by which hyperparameters are chosen; 0 for none.
        inner_fraction: how much of every class of the training part trains in these.
        inner_settings: arguments that are others in these, such as fewer starts.
        path: whether a training starts where that of the next smaller C ended; else each starts anew, as in the paper.

    >>> methods = [Method("LSVM", "lvmdc.LSVM", {}, {"C": [1, 10]})]
    >>> Protocol(methods, {"zero_one": {"_target_": "lvmdc.ZeroOneLoss"}}).check()
    >>> Protocol(methods, {}).check()
    Traceback (most recent call last):
    ValueError: losses must name at least one loss, but it is empty
    """

    methods: Sequence[Method]
    losses: Mapping[str, Mapping[str, Any]]
    folds: int = 5
    fraction: float = 0.6
    split_seed: int = 0
    seed: int = 0
    inner_folds: int = 3
    inner_fraction: float = 0.75
    inner_settings: Mapping[str, Plain] = field(default_factory=dict)
    path: bool = False

    def check(self) -> None:
        """Refuse what cannot be run, in one sentence, before any work."""
        for name, one, values in (("methods", "method", self.methods), ("losses", "loss", self.losses)):
            if not values:
                raise ValueError(f"{name} must name at least one {one}, but it is empty")
        if self.folds < 1:
            raise ValueError(f"folds must be at least 1, but it is {self.folds}")
        if self.inner_folds < 0:
            raise ValueError(f"validation.folds must be at least 0, but it is {self.inner_folds}")
        for name, fraction in (("data.fraction", self.fraction), ("validation.fraction", self.inner_fraction)):
            if not 0 < fraction < 1:
                raise ValueError(f"{name} must lie between 0 and 1, but it is {fraction}")
        for method in self.methods:
            method.check()
            Method(method.name, method.learner, dict(method.settings) | dict(self.inner_settings), method.grid).check()
        for name, spec in self.losses.items():
            try:
                make_loss(json.dumps(dict(spec)))
            except (ImportError, AttributeError, KeyError, TypeError, ValueError) as error:
                raise ValueError(f"losses.{name} must make a loss, as configs/loss does, but it does not: {error}") from None
