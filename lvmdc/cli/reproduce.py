"""A figure of the paper from a composed configuration: what `lvmdc reproduce` runs."""

from __future__ import annotations

import logging
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from lvmdc.cli import errors
from lvmdc.cli.config import checked
from lvmdc.cli.report import supervision
from lvmdc.lightning.data import FRACTION, LatentDataModule
from lvmdc.reporting.record import write_record
from lvmdc.reproduction.problem import Problem
from lvmdc.reproduction.protocol import Method, Protocol, Run, check_divisions, describe_plan, plan_runs
from lvmdc.reproduction.report import Report, publish
from lvmdc.reproduction.results import Paper
from lvmdc.reproduction.runner import Store, code_digest, do_runs
from lvmdc.vision.metrics import recall

log = logging.getLogger(__name__)
EMBEDDED = ("cluttered_digits", "stick_actions")
PASSING = ("publish=", "n_jobs=", "memory=", "run=", "redo=", "out=", "paths.", "extras.", "hydra")  # words that change no result


class RunsFailed(RuntimeError):
    """Some runs ended in an error; all others are done and reported."""


def reproduce(cfg: DictConfig) -> Report:
    """Do the runs of a figure that are not done, then write the figure, tables and images; at the end RunsFailed if some failed."""
    protocol, paper = read_protocol(cfg), read_paper(cfg)
    check_rest(cfg, protocol)
    folder, store = Path(cfg.out), Store(cfg.out)
    data: LatentDataModule = instantiate(cfg.data, _convert_="all")
    problems = problems_by_fold(data, protocol.folds)
    problem, keys = problems[0], [each.key for each in problems]
    runs = plan_runs(protocol, keys)
    check_divisions({run.division for run in runs}, problem.y, problem.groups)
    about = describe(data, problem, str(cfg.data.images._target_).rpartition(".")[2])
    log.info("%s\n%s\n%s", cfg.title, about, describe_plan(protocol, runs))
    for key in dict.fromkeys(keys) if cfg.run else ():
        do_missing(cfg, [run for run in runs if run.data == key], problems[keys.index(key)], store)
    names = [method.name for method in protocol.methods]
    compare, against = (cfg.compare if cfg.compare in names else None), [name for name in cfg.against if name in names]
    results = [(run, store.read(run)) for run in runs]
    report = Report(cfg.name, cfg.title, about, command(sys.argv[1:]), protocol, paper, results, compare, against)
    report.write(folder)
    report.write_examples(folder, problem, data.images, cfg.examples)
    log.info("\n%s\n", "\n\n".join(table.text() for table in report.tables()))
    for name, place in (("figure", f"{cfg.name}.png"), ("table", "table.html"), ("examples", "examples.html"), ("all runs", "runs.csv")):
        if (folder / place).exists():
            log.info("%-9s %s", name, folder / place)
    failed = [run for run in runs if store.failure(run).exists()]
    if failed:
        last = store.failure(failed[0]).read_text(encoding="utf-8").strip().splitlines()[-1]
        raise RunsFailed(
            f"{len(failed)} of {len(runs)} runs failed, and are tried again next time; the first: {last}; see {store.failure(failed[0])}"
        )
    if cfg.publish is not None:
        missing = sum(result is None for _, result in results)
        if missing:
            raise ValueError(f"publish needs all {len(runs)} runs, but {missing} of them are not done")
        log.info("published %s", publish(cfg.publish, cfg.name, report.section(), (folder / f"{cfg.name}.png").read_bytes()))
    return report


def problems_by_fold(data: LatentDataModule, folds: int) -> list[Problem]:
    """The samples of each fold: the same for all, unless a prior learns from the training images."""
    if not data.learns_prior:
        return [Problem.of(data.images, data.of_images(torch.arange(0)).candidates)] * folds
    train = (data.images.split(FRACTION if data.fraction is None else data.fraction, fold, data.split_seed)[0] for fold in range(folds))
    return [Problem.of(data.images, data.of_images(part).candidates) for part in train]


def do_missing(cfg: DictConfig, runs: Sequence[Run], problem: Problem, store: Store) -> None:
    """The runs that are not done yet, or, with `redo`, were done by other code."""
    found = {run: store.read(run) for run in runs}
    stale = [run for run, result in found.items() if result is not None and result.get("code") != code_digest()]
    if stale and not cfg.redo:
        log.warning("%d of the results were made by other code than this; redo=true repeats them", len(stale))
    again = set(stale) if cfg.redo else set()
    left = list({run.key: run for run, result in found.items() if result is None or run in again}.values())
    log.info("%d of them are done already, %d are left", len(runs) - len(left), len(left))
    if not left:
        return
    write_record(store.folder)
    samples = store.folder / f"samples-{problem.key[:16]}.npz"
    problem.save(samples)
    try:
        do_runs(left, str(samples), store, cfg.n_jobs, cfg.memory, cfg.extras.progress)
    except KeyboardInterrupt:
        done, again_by = sum(store.path(run).exists() for run in runs), command(sys.argv[1:], ())
        log.info("\ninterrupted; %d of %d runs are done and kept. To continue, repeat the command: %s", done, len(runs), again_by)
        raise
    finally:
        samples.unlink(missing_ok=True)


def main(words: Sequence[str] | None = None) -> None:
    """`lvmdc reproduce`, and scripts/reproduce.py."""
    try:
        errors.run("reproduce", lambda cfg: reproduce(checked(cfg)), quoted(sys.argv[1:] if words is None else words))
    except RunsFailed as failed:
        sys.exit(f"error: {failed}")
    except KeyboardInterrupt:
        sys.exit(130)


def read_protocol(cfg: DictConfig) -> Protocol:
    """The protocol of `configs/reproduce.yaml` and the chosen figure, checked.

    >>> lsvm = {"learner": "lvmdc.LSVM", "grid": {"C": []}}
    >>> cfg = {"methods": {"LSVM": lsvm}, "losses": {"label": {"_target_": "lvmdc.LabelLoss"}}, "settings": {"tol": 0.001}}
    >>> cfg |= {"data": {"fraction": 0.6, "split_seed": 0}, "folds": 5, "seed": 0, "validation": {"folds": 1, "fraction": 0.75}}
    >>> read_protocol(OmegaConf.create(cfg))
    Traceback (most recent call last):
    ValueError: methods.LSVM.grid.C must be a list of at least one value, but it is []
    """
    plain: dict[str, Any] = {name: _plain(cfg, name) for name in ("data", "methods", "losses", "settings", "validation", "folds", "seed")}
    for name, value, unset in (
        ("data.fold", plain["data"].get("fold", 0), 0),
        ("data.val_fraction", plain["data"].get("val_fraction", 0), 0),
    ):
        if value != unset:
            raise ValueError(
                f"{name} must be left at {unset}, but it is {value}: a figure runs all of its folds, see folds= and validation="
            )
    methods = []
    for name, part in plain["methods"].items():
        if part is None:  # methods.Supervised=null leaves one out
            continue
        wrong = sorted(set(part) - {"learner", "settings", "grid"})
        if wrong:
            raise ValueError(f"methods.{name} must have learner, settings and grid, but it has {wrong[0]!r}")
        method = Method(name, str(part.get("learner")), plain["settings"] | (part.get("settings") or {}), part.get("grid") or {})
        methods.append(method)
    validation = plain["validation"]
    inner_settings = {} if validation.get("n_init") is None else {"n_init": validation["n_init"]}
    losses = {name: spec for name, spec in plain["losses"].items() if spec is not None}
    protocol = Protocol(
        methods,
        losses,
        plain["folds"],
        plain["data"]["fraction"],
        plain["data"]["split_seed"],
        plain["seed"],
        validation["folds"],
        validation["fraction"],
        inner_settings,
    )
    protocol.check()
    return protocol


def _plain(cfg: DictConfig, name: str) -> Any:
    """A part of the configuration as plain data."""
    return OmegaConf.to_container(cfg[name], resolve=True) if OmegaConf.is_config(cfg[name]) else cfg[name]


def read_paper(cfg: DictConfig) -> Paper:
    """The paper's numbers: loss → method → [mean, deviation], in percent.

    >>> read_paper(OmegaConf.create({"paper": {"zero_one": {"LSVM": [64.82, 4.96]}}}))
    {'zero_one': {'LSVM': (64.82, 4.96)}}
    """
    found: dict[str, dict[str, tuple[float, float]]] = {}
    plain: Any = OmegaConf.to_container(cfg.paper, resolve=True)
    for loss, methods in plain.items():
        for method, pair in methods.items():
            if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(v, int | float) for v in pair):
                raise ValueError(f"paper.{loss}.{method} must be [mean, deviation], but it is {pair}")
            found.setdefault(loss, {})[method] = (float(pair[0]), float(pair[1]))
    return found


def check_rest(cfg: DictConfig, protocol: Protocol) -> None:
    """Refuse missing files, comparisons with methods that are not run, and numbers out of range."""
    for path in cfg.needs:
        if not Path(path).exists():
            raise FileNotFoundError(f"{path} does not exist: LVMDC_DATA must name the folder of the data sets; figure=demo needs none")
    names = [method.name for method in protocol.methods]
    for name in [cfg.compare, *cfg.against]:
        if name is not None and name not in names and cfg.methods.get(name, 0) is not None:
            raise ValueError(f"compare and against must be among the methods {', '.join(names)}, but {name} is not")
    for name, least in (("n_jobs", 1), ("memory", 1), ("examples", 0)):
        if cfg[name] is not None and cfg[name] < least:
            raise ValueError(f"{name} must be at least {least}, but it is {cfg[name]}")


def describe(data: LatentDataModule, problem: Problem, source: str) -> str:
    """The data in a sentence."""
    counts, c = problem.candidates.counts, problem.candidates
    where = "embedded data, made from a seed" if source in EMBEDDED else "data on disk"
    return (
        f"Data: {source} ({where}), {len(problem)} images of {len(data.classes)} classes, {int(counts.min())} to {int(counts.max())}"
        f" candidates of {c.n_features} features per image, {float(counts.double().mean()):.1f} on average;"
        f" {100 * recall(c, problem.truth):.1f} % of the images have one that overlaps the annotated box by half."
        f" Supervision: {supervision(data)}."
    )


def quoted(words: Sequence[str]) -> list[str]:
    """Words of a command line with figure=1 as figure='1': Hydra takes a bare 1 for a number, which cannot name a choice.

    >>> quoted(["-m", "figure=1,1_cnn", "C=[1]"])
    ['-m', "figure='1',1_cnn", 'C=[1]']
    """
    return [re.sub(r"(?<=[=,])\d+(?=,|$)", r"'\g<0>'", word) if word.startswith("figure=") else word for word in words]


def command(words: Sequence[str], without: tuple[str, ...] = PASSING) -> str:
    """What to type to get the same results, without words that change none.

    >>> command(["figure='1'", "n_jobs=4", "publish=docs"])
    'lvmdc reproduce figure=1'
    """
    kept = (word for word in words if not word.startswith(without) and word != "reproduce")
    typed = (word.replace("'", "") if word.startswith("figure=") else word for word in kept)
    return shlex.join(["lvmdc", "reproduce", *typed])
