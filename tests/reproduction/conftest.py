"""A small problem, and results made by hand."""

from collections.abc import Callable

import pytest

from lvmdc.reproduction import Division, Method, Problem, Protocol, Run
from lvmdc.vision.datasets import cluttered_digits
from lvmdc.vision.features import HOG, build_candidates
from lvmdc.vision.proposals import WindowGrid

LOSSES = {"zero_one": {"_target_": "lvmdc.ZeroOneLoss"}, "overlap": {"_target_": "lvmdc.OverlapLoss"}}


@pytest.fixture(scope="session")
def digits() -> Problem:
    """36 images with 25 windows each."""
    images = cluttered_digits(per_class=6)
    return Problem.of(images, build_candidates(images, WindowGrid(), HOG(), progress=False))


@pytest.fixture(scope="session")
def samples(digits, tmp_path_factory) -> str:
    """The problem on disk, as processes read it."""
    path = tmp_path_factory.mktemp("samples with spaces é") / "samples.npz"
    digits.save(path)
    return str(path)


@pytest.fixture(scope="session")
def protocol() -> Callable[..., Protocol]:
    """`protocol(learner, …)`: a protocol of quick methods, each named after its learner."""

    def make(*learners: str, C=(0.1, 1.0), **others) -> Protocol:
        methods = [Method(name.rpartition(".")[2], name, {"tol": 0.1, "max_iter": 5}, {"C": list(C)}) for name in learners]
        return Protocol(methods, **({"losses": LOSSES, "folds": 2, "inner_folds": 1} | others))

    return make


@pytest.fixture(scope="session")
def run() -> Callable[..., Run]:
    """`run(method, loss, fold, C=…, inner=…)`: a run as a plan has it."""

    def make(method: str, loss: str = "zero_one", fold: int = 0, C: float = 1.0, inner: int | None = None, **others) -> Run:
        point = tuple(sorted({"C": C, **others}.items()))
        division = Division(fold, inner=inner, inner_fraction=None if inner is None else 0.75)
        return Run(method, f"lvmdc.{method}", loss, '{"_target_": "lvmdc.ZeroOneLoss"}', point, point, division, "data")

    return make
