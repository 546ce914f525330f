"""What is reported of each method under each loss, and how the paper's method compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lvmdc.reproduction.choice import Choice, Outcomes, best_on_test, chosen_by_validation
from lvmdc.reproduction.paired import PairedTest, paired_test
from lvmdc.reproduction.protocol import Protocol

Paper = Mapping[str, Mapping[str, tuple[float, float]]]  # loss → method → mean and deviation, in percent


@dataclass(frozen=True)
class Summary:
    """What is reported of one method under one loss."""

    method: str
    loss: str
    best: Choice | None
    validated: Choice | None
    paper: tuple[float, float] | None = None


@dataclass(frozen=True)
class Comparison:
    """The method that the paper proposes against another one, under one loss, by both ways to choose hyperparameters."""

    method: str
    other: str
    loss: str
    tests: Mapping[str, PairedTest | None] = field(default_factory=dict)


def summarise(protocol: Protocol, outcomes: Outcomes, paper: Paper) -> list[Summary]:
    """One summary for each loss and method.

    >>> summarise(Protocol([], {}), {}, {})
    []
    """
    return [
        Summary(
            method.name,
            loss,
            best_on_test(outcomes, method.name, loss, protocol.folds),
            chosen_by_validation(outcomes, method.name, loss, protocol.folds, protocol.inner_folds) if protocol.inner_folds else None,
            paper.get(loss, {}).get(method.name),
        )
        for loss in protocol.losses
        for method in protocol.methods
    ]


def compare(summaries: Sequence[Summary], method: str, others: Sequence[str], fraction: float) -> list[Comparison]:
    """Paired tests of a method against others over the folds, of which `fraction` of the samples trained."""
    by_name = {(s.loss, s.method): s for s in summaries}
    found = []
    for loss in dict.fromkeys(s.loss for s in summaries):
        for other in others:
            one, two = by_name.get((loss, method)), by_name.get((loss, other))
            if one is not None and two is not None:
                pairs = {"best": (one.best, two.best), "validated": (one.validated, two.validated)}
                tests = {kind: _tested(a, b, 1 - fraction) for kind, (a, b) in pairs.items()}
                found.append(Comparison(method, other, loss, tests))
    return found


def _tested(one: Choice | None, two: Choice | None, test_share: float) -> PairedTest | None:
    return None if one is None or two is None else paired_test(one.values("loss"), two.values("loss"), test_share)
