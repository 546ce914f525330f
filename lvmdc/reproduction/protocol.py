"""What section 6 of the paper does, as data: methods, losses, grids, folds."""

from __future__ import annotations

import difflib
import inspect
import itertools
import json
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lvmdc.learners import LatentLearner
from lvmdc.reproduction.run import Plain, Settings, make_loss

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
