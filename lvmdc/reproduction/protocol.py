"""What section 6 of the paper runs, as data: methods, losses, grids and folds, and the plan of all runs.

A run has a key that is made of all that decides its result, and its result is kept under that key.
"""

from __future__ import annotations

import difflib
import hashlib
import inspect
import itertools
import json
import math
import pkgutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from torch import Tensor

from lvmdc.learners import LatentLearner
from lvmdc.losses import Loss
from lvmdc.reproduction.problem import made
from lvmdc.samples import split_by_class

FORMAT = 1  # raise it when the same settings mean another run, and old results are left alone
SEED_STEP = 100  # between the starts of one fold and those of the next: more than any n_init
RESERVED = ("loss", "seed")  # arguments that the protocol itself gives a learner
STRENGTH = "prior_strength"  # a setting of the samples, not of the learner: factor on the log weights of the prior; 0: no prior

Plain = str | int | float | bool | None
Settings = tuple[tuple[str, Plain], ...]  # names and values of a learner's arguments, sorted by name


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

    def parts(self, y: Tensor, groups: Tensor | None = None, published: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Indices of the samples that train and of those held out; near duplicates, which share a group, stay on one side.

        Where the data come divided, the fold is the `published` training and test part.
        """
        train, test = split_by_class(y, self.fraction, self.fold, self.seed, groups) if published is None else published
        if self.inner is None or self.inner_fraction is None:
            return train, test
        groups = None if groups is None else groups[train]
        kept, held_out = split_by_class(y[train], self.inner_fraction, self.inner, self.seed + 1 + self.fold, groups)
        return train[kept], train[held_out]


def check_divisions(
    divisions: set[Division], y: Tensor, groups: Tensor | None = None, published: tuple[Tensor, Tensor] | None = None
) -> None:
    """Refuse classes too small to be divided, before any learning.

    >>> import torch
    >>> check_divisions({Division(fold=0)}, torch.tensor([0, 0, 1]))
    Traceback (most recent call last):
    ValueError: fold 0: class 1 of y has too few samples to be in both the training and the test part: 1 samples
    """
    for division in sorted(divisions, key=lambda d: (d.fold, -1 if d.inner is None else d.inner)):
        try:
            division.parts(y, groups, published)
        except ValueError as error:
            where = f"fold {division.fold}" + ("" if division.inner is None else f", validation fold {division.inner}")
            raise ValueError(f"{where}: {error}") from None


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
        noise: seed of noise in the last digit of the training features; 0: none. It shows how far results depend on rounding.

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
    noise: int = 0

    @property
    def inner(self) -> bool:
        """Whether it only serves to choose hyperparameters."""
        return self.division.inner is not None

    @property
    def key(self) -> str:
        """A hash of all that decides the result. The names in the figure and the rest of the grid do not."""
        decides = [FORMAT, self.learner, json.loads(self.loss_spec), dict(self.settings), asdict(self.division), self.data]
        decides += [self.noise] if self.noise else []
        return hashlib.sha256(json.dumps(_normal(decides), sort_keys=True).encode()).hexdigest()[:24]

    def setting(self, name: str, default: Plain = None) -> Plain:
        """The value of one of the learner's arguments."""
        return dict(self.settings).get(name, default)

    def describe(self) -> dict[str, Any]:
        """The run as plain data."""
        return asdict(self) | {"settings": dict(self.settings), "point": dict(self.point), "loss_spec": json.loads(self.loss_spec)}

    @property
    def prior_strength(self) -> float:
        """The factor on the log weights of the prior of h, where the samples have one."""
        strength = self.setting(STRENGTH, 1.0)
        assert isinstance(strength, int | float)
        return float(strength)

    def make_loss(self) -> Loss:
        """The loss that it learns and is measured by."""
        return made(self.loss_spec)

    def make_learner(self, **others: Any) -> LatentLearner:
        """The learner, not yet fitted; `others` replace or add arguments that do not decide the result."""
        return pkgutil.resolve_name(self.learner)(loss=self.make_loss(), **_own(dict(self.settings) | others))


def _own(settings: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the learner itself."""
    return {name: value for name, value in settings.items() if name != STRENGTH}


def _normal(value: Any) -> Any:
    """1 and 1.0 are one number: they must not be two runs."""
    if isinstance(value, dict):
        return {name: _normal(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_normal(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@dataclass(frozen=True)
class Method:
    """A learner, its fixed arguments, and the grid of those that are searched over; the grid overrides fixed arguments. Both may also have
    `prior_strength`, the factor on the log weights of the prior.

    >>> method = Method("DISC", "lvmdc.DISC", {"J": 0.1, "tol": 1e-3}, {"C": [1, 10], "J": [0.1, 0.01]})
    >>> list(method.points())[1]
    (('C', 1), ('J', 0.01))
    """

    name: str
    learner: str
    settings: Mapping[str, Plain] = field(default_factory=dict)
    grid: Mapping[str, Sequence[Plain]] = field(default_factory=dict)

    @property
    def known_h(self) -> bool:
        """Whether the learner trains with the true h."""
        try:
            return bool(getattr(pkgutil.resolve_name(self.learner), "uses_known_h", False))
        except (ImportError, AttributeError, ValueError):
            return False  # `check` says what is wrong with it

    def points(self) -> Iterator[Settings]:
        """Every combination of the grid's values, the first argument varying slowest."""
        for values in itertools.product(*self.grid.values()):
            yield tuple(sorted(zip(self.grid, values, strict=True)))

    def check(self) -> None:
        """Refuse an unknown learner, arguments that it does not take, and values that it refuses."""
        where = f"methods.{self.name}"
        try:
            kind = pkgutil.resolve_name(self.learner)
        except (ImportError, AttributeError, ValueError):
            raise ValueError(f"{where}.learner must name a learner such as lvmdc.DISC, but it is {self.learner!r}") from None
        if not (inspect.isclass(kind) and issubclass(kind, LatentLearner)):
            raise ValueError(f"{where}.learner must name a learner such as lvmdc.DISC, but {self.learner} is not one")
        taken = [STRENGTH, *(name for name in inspect.signature(kind).parameters if name not in RESERVED)]
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
            if not (isinstance(strength := arguments.get(STRENGTH, 1.0), int | float) and 0 <= strength < math.inf):
                raise ValueError(f"{where}: {STRENGTH} must be a number of at least 0, but it is {strength!r}")
            try:
                kind(**_own(arguments)).check_parameters()
            except (TypeError, ValueError) as error:
                raise ValueError(f"{where}: {error}") from None


@dataclass(frozen=True)
class Protocol:
    """Methods × losses × folds, and how often the training part is divided again to choose hyperparameters without test data.

    Args:
        methods: what is compared.
        losses: name → arguments of the loss, `_target_` being its class.
        folds: how many of the independent divisions.
        fraction: how much of every class trains.
        split_seed: of the divisions.
        seed: of the first start in fold 0; fold k starts from seed + 100·k, the same for all methods.
        inner_folds: divisions of each training part by which hyperparameters are chosen; 0 for none.
        inner_fraction: how much of every class of the training part trains in these.
        inner_settings: arguments that differ in these, such as fewer starts.

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
                made(json.dumps(dict(spec)))
            except (ImportError, AttributeError, KeyError, TypeError, ValueError) as error:
                raise ValueError(f"losses.{name} must make a loss, as configs/loss does, but it does not: {error}") from None


def plan_runs(protocol: Protocol, data: str | Sequence[str]) -> list[Run]:
    """Every run of the protocol on data of that content key, or of one key for each fold: by loss and method, first those of the folds,
    then the inner ones.

    >>> methods = [Method("LSVM", "lvmdc.LSVM", {}, {"C": [1, 10]})]
    >>> protocol = Protocol(methods, {"zero_one": {"_target_": "lvmdc.ZeroOneLoss"}}, folds=5, inner_folds=2)
    >>> runs = plan_runs(protocol, "key of the data")
    >>> len([run for run in runs if not run.inner]), len([run for run in runs if run.inner])
    (10, 20)
    """
    runs: list[Run] = []
    for loss, spec in protocol.losses.items():
        text = json.dumps(dict(spec), sort_keys=True)
        for method in protocol.methods:
            for division in _divisions(protocol):
                key = data if isinstance(data, str) else data[division.fold]
                fixed = dict(method.settings) | ({} if division.inner is None else dict(protocol.inner_settings))
                fixed["seed"] = protocol.seed + SEED_STEP * division.fold
                for point in method.points():
                    settings = tuple(sorted(_once(fixed | dict(point)).items()))
                    runs.append(Run(method.name, method.learner, loss, text, settings, point, division, key))
    return runs


def _once(settings: dict[str, Plain]) -> dict[str, Plain]:
    """One start where all would be the same: only a random start and the stochastic θ block depend on the seed."""
    same = settings.get("init", "random") != "random" and settings.get("theta_solver") != "ssd"
    return settings | {"n_init": 1} if same and "n_init" in settings else settings


def _divisions(protocol: Protocol) -> list[Division]:
    outer = [Division(fold, protocol.fraction, protocol.split_seed) for fold in range(protocol.folds)]
    inner = [Division(d.fold, d.fraction, d.seed, i, protocol.inner_fraction) for d in outer for i in range(protocol.inner_folds)]
    return outer + inner


def noisy(runs: Iterable[Run], copies: int) -> list[Run]:
    """`copies` of each run that differ in the last digit of the training features alone.

    >>> noisy([], copies=2)
    []
    """
    return [replace(run, noise=seed) for run in runs for seed in range(1, copies + 1)]


def in_order(runs: Iterable[Run]) -> list[Run]:
    """The runs in the order in which processes get them: one division after the other, so that runs on one share its samples and their
    start, and in each those that take longest first, the large C.

    >>> methods = [Method("LSVM", "lvmdc.LSVM", {}, {"C": [1, 10]})]
    >>> runs = plan_runs(Protocol(methods, {"zero_one": {"_target_": "lvmdc.ZeroOneLoss"}}, folds=1, inner_folds=1), "data")
    >>> [(run.inner, run.setting("C")) for run in in_order(runs)]
    [(False, 10), (False, 1), (True, 10), (True, 1)]
    """

    def place(run: Run) -> tuple[int, int, int, float, str, str]:
        C, inner = run.setting("C", 1.0), run.division.inner
        longest = -float(C) if isinstance(C, int | float) else 0.0
        return run.division.fold, -1 if inner is None else inner, run.noise, longest, run.method, str(run.settings)

    return sorted(runs, key=place)


def describe_plan(protocol: Protocol, runs: Sequence[Run]) -> str:
    """How many runs there are, and of what.

    >>> methods = [Method("LSVM", "lvmdc.LSVM", {}, {"C": [1, 10]})]
    >>> protocol = Protocol(methods, {"zero_one": {"_target_": "lvmdc.ZeroOneLoss"}}, folds=5, inner_folds=2)
    >>> describe_plan(protocol, plan_runs(protocol, "data"))
    '30 runs: 10 on 5 folds (LSVM 10) and 20 on 2 validation folds of each'
    """
    outer = [run for run in runs if not run.inner]
    each = ", ".join(f"{m.name} {sum(run.method == m.name for run in outer)}" for m in protocol.methods)
    rest = len(runs) - len(outer)
    inner = f" and {rest} on {protocol.inner_folds} validation folds of each" if rest else ""
    return f"{len(runs)} runs: {len(outer)} on {protocol.folds} folds ({each}){inner}"
