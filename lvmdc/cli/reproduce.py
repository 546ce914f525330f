"""The figures of the paper and the other comparisons, each from a composed configuration: what `lvmdc reproduce` runs."""

from __future__ import annotations

import logging
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from tqdm import tqdm

from lvmdc.cli import errors
from lvmdc.cli.config import checked
from lvmdc.cli.report import supervision
from lvmdc.lightning.data import FRACTION, LatentDataModule
from lvmdc.priors import ProductPrior
from lvmdc.reporting.record import write_record
from lvmdc.reproduction.problem import Problem
from lvmdc.reproduction.protocol import Division, Method, Protocol, Run, check_divisions, describe_plan, noisy, plan_runs
from lvmdc.reproduction.report import Report
from lvmdc.reproduction.results import Paper
from lvmdc.reproduction.runner import Store, code_digest, do_runs
from lvmdc.reproduction.summary import ORDER, publish
from lvmdc.vision.metrics import recall

log = logging.getLogger(__name__)
ALL = tuple(name.removeprefix("figure_") for name in ORDER)  # figure=all
EMBEDDED = ("cluttered_digits", "rotated_digits", "planted_motifs", "stick_actions")
PASSING = ("publish=", "n_jobs=", "memory=", "run=", "redo=", "out=", "paths.", "extras.", "hydra")  # words that change no result


class RunsFailed(RuntimeError):
    """Some runs ended in an error; all others are done and reported."""


def reproduce(cfg: DictConfig, bar: tqdm | None = None) -> Report:
    """Do the runs of a figure that are not done, then write the figure, tables and images; at the end RunsFailed if some failed.

    `bar` counts the runs of several figures; None: this one has its own.
    """
    protocol, paper = read_protocol(cfg), read_paper(cfg)
    check_rest(cfg, protocol)
    folder, store = Path(cfg.out), Store(cfg.out)
    data = data_by_fold(cfg, protocol.folds)
    joint: Any = None if cfg.joint is None else OmegaConf.to_container(cfg.joint, resolve=True)
    problems = problems_by_fold(data, joint)
    keys = [each.key for each in problems]
    by_key = dict(zip(keys, problems, strict=True))
    runs = plan_runs(protocol, keys)
    for key, problem in by_key.items():
        check_divisions({run.division for run in runs if run.data == key}, problem.y, problem.groups, problem.published)
    about = describe(data[0], problems[0], _source(cfg))
    log.info("%s\n%s\n%s", cfg.title, about, describe_plan(protocol, runs))
    do_missing(cfg, runs, by_key, store, bar)
    names = [method.name for method in protocol.methods]
    compare, against = (cfg.compare if cfg.compare in names else None), [name for name in cfg.against if name in names]
    results = [(run, store.read(run)) for run in runs]
    used = None if problems[0].candidates.prior is None else data[0].prior
    prior = " × ".join(part.name for part in (used.priors if isinstance(used, ProductPrior) else [used] if used is not None else []))
    report = Report(cfg.name, cfg.title, about, command(sys.argv[1:]), protocol, paper, results, compare, against)
    train, test = Division(0, protocol.fraction, protocol.split_seed).parts(problems[0].y, problems[0].groups, problems[0].published)
    share, published = len(test) / (len(train) + len(test)), problems[0].published is not None
    report = replace(report, test_share=share, published=published, prior=prior or None)
    again = noisy(report.reported, cfg.noise)
    if again:
        log.info("%d runs with noise in the last digit of the features, for the spread of what is reported", len(again))
        do_missing(cfg, again, by_key, store, bar)
        report = replace(report, noise=[(run, store.read(run)) for run in again])
    report.write(folder)
    if problems[0].truth is not None:
        report.write_examples(folder, problems[0], data[0].images, cfg.examples)
    log.info("\n%s\n", "\n\n".join(table.text() for table in report.tables()))
    for name, place in (("figure", f"{cfg.name}.png"), ("table", "table.html"), ("examples", "examples.html"), ("all runs", "runs.csv")):
        if (folder / place).exists():
            log.info("%-9s %s", name, folder / place)
    failed = [run for run in [*runs, *again] if store.failure(run).exists()]
    if failed:
        last = store.failure(failed[0]).read_text(encoding="utf-8").strip().splitlines()[-1]
        raise RunsFailed(
            f"{len(failed)} of {len(runs)} runs failed, and are tried again next time; the first: {last}; see {store.failure(failed[0])}"
        )
    if cfg.publish is not None:
        missing = sum(result is None for _, result in [*results, *report.noise])
        if missing:
            raise ValueError(f"publish needs all {len(runs) + len(again)} runs, but {missing} of them are not done")
        log.info("published %s", publish(cfg.publish, report, (folder / f"{cfg.name}.png").read_bytes()))
    return report


def data_by_fold(cfg: DictConfig, folds: int) -> list[LatentDataModule]:
    """The data of each fold: the same for all, unless `by_fold` has settings that differ."""
    if not cfg.by_fold:
        return [instantiate(cfg.data, _convert_="all")] * folds
    found = []
    for fold in range(folds):
        own = cfg.copy()
        for name, values in cfg.by_fold.items():
            OmegaConf.update(own, str(name), values[fold], force_add=False)
        found.append(instantiate(own.data, _convert_="all"))
    return found


def problems_by_fold(data: Sequence[LatentDataModule], joint: Mapping[str, Any] | None = None) -> list[Problem]:
    """The samples of each fold: one object where they are the same, which they are not where a prior learns from the training images."""
    found: dict[tuple[int, int], Problem] = {}
    problems = []
    for fold, each in enumerate(data):
        learns = each.samples is None and each.learns_prior
        key = id(each), fold if learns else 0
        if key not in found:
            if each.samples is not None:
                found[key] = Problem.of_samples(each.samples, joint)
            else:
                fraction = FRACTION if each.fraction is None else each.fraction
                train = each.images.split(fraction, fold, each.split_seed)[0] if learns else torch.arange(0)
                found[key] = Problem.of(each.images, each.of_images(train).candidates)
        problems.append(found[key])
    return problems


def do_missing(cfg: DictConfig, runs: Sequence[Run], problems: Mapping[str, Problem], store: Store, bar: tqdm | None = None) -> None:
    """The runs that are not done yet, or, with `redo`, were done by other code; `problems` are the samples by their key."""
    found = {run: store.read(run) for run in runs}
    stale = [run for run, result in found.items() if result is not None and result.get("code") != code_digest()]
    if stale and not cfg.redo:
        log.warning("%d of the results were made by other code than this; redo=true repeats them", len(stale))
    again = set(stale) if cfg.redo else set()
    left = list({run.key: run for run, result in found.items() if result is None or run in again}.values())
    log.info("%d of them are done already, %d are left", len(runs) - len(left), len(left))
    if bar is not None:
        bar.update(len(runs) - len(left) if cfg.run else len(runs))
    if not left or not cfg.run:
        return
    write_record(store.folder)
    own = tqdm(total=len(left), desc="runs", unit="run", disable=not cfg.extras.progress, smoothing=0) if bar is None else bar
    try:
        for key, problem in problems.items():
            if part := [run for run in left if run.data == key]:
                samples = store.folder / f"samples-{key[:16]}.npz"
                problem.save(samples)
                try:
                    do_runs(part, str(samples), store, cfg.n_jobs, cfg.memory, own)
                finally:
                    samples.unlink(missing_ok=True)
    except KeyboardInterrupt:
        done, again_by = sum(store.path(run).exists() for run in runs), command(sys.argv[1:], ())
        log.info("\ninterrupted; %d of %d runs are done and kept. To continue, repeat the command: %s", done, len(runs), again_by)
        raise
    finally:
        if bar is None:
            own.close()


def main(words: Sequence[str] | None = None) -> None:
    """`lvmdc reproduce`, and scripts/reproduce.py."""
    words = quoted(sys.argv[1:] if words is None else words)
    try:
        if "figure=all" in words:
            every_figure([word for word in words if word != "figure=all"])
        else:
            errors.run("reproduce", lambda cfg: reproduce(checked(cfg)), words)
    except RunsFailed as failed:
        sys.exit(f"error: {failed}")
    except KeyboardInterrupt:
        sys.exit(130)


def every_figure(words: Sequence[str]) -> None:
    """All figures of docs/RESULTS.md, one after the other, under one progress bar; an error in one is shown when the others are done."""
    typed, plans, failed = sys.argv, dict[str, int](), list[str]()
    if own := [word for word in words if word.startswith(("out=", "name="))]:
        raise RunsFailed(f"figure=all has a folder for each figure, so that {own[0]} cannot be given: use paths.log_dir=")

    def with_words(figure: str, work: Any) -> None:
        own = quoted([f"figure={figure}", *words])
        sys.argv = [typed[0], "reproduce", *own]
        try:
            errors.run("reproduce", lambda cfg: work(checked(cfg)), own)
        finally:
            sys.argv = typed

    def plan(cfg: DictConfig) -> None:
        protocol = read_protocol(cfg)
        check_rest(cfg, protocol)
        noise = len(protocol.methods) * len(protocol.losses) * protocol.folds * cfg.noise
        plans[cfg.name] = len(plan_runs(protocol, "")) + noise

    for figure in ALL:
        with_words(figure, plan)
    with tqdm(total=sum(plans.values()), desc="all figures", unit="run", smoothing=0, disable="extras.progress=false" in words) as bar:
        for figure in ALL:
            bar.set_description(f"figure={figure}")
            try:
                with_words(figure, lambda cfg: reproduce(cfg, bar))
            except (Exception, SystemExit) as error:
                failed.append(f"figure={figure}: {str(error).removeprefix('error: ')}")
    if failed:
        raise RunsFailed("\n".join(failed))


def read_protocol(cfg: DictConfig) -> Protocol:
    """The protocol of `configs/reproduce.yaml` and the chosen figure, checked.

    >>> lsvm = {"learner": "lvmdc.LSVM", "grid": {"C": []}}
    >>> cfg = {"methods": {"LSVM": lsvm}, "losses": {"label": {"_target_": "lvmdc.LabelLoss"}}, "settings": {"tol": 0.001}}
    >>> cfg |= {"data": {"fraction": 0.6, "split_seed": 0}, "folds": 5, "seed": 0, "validation": {"folds": 1, "fraction": 0.75}}
    >>> cfg |= {"search": {}}
    >>> read_protocol(OmegaConf.create(cfg))
    Traceback (most recent call last):
    ValueError: methods.LSVM.grid.C must be a list of at least one value, but it is []
    """
    names = ("data", "methods", "losses", "settings", "search", "validation", "folds", "seed")
    plain: dict[str, Any] = {name: _plain(cfg, name) for name in names}
    for name, value, unset in (
        ("data.fold", plain["data"].get("fold", 0), 0),
        ("data.val_fraction", plain["data"].get("val_fraction", 0), 0),
        ("data.split", plain["data"].get("split"), None),
        ("data.kernel_map", plain["data"].get("kernel_map") or None, None),
        ("data.known_boxes", plain["data"].get("known_boxes"), None),
        ("data.prior_strength", plain["data"].get("prior_strength", 1), 1),
    ):
        if value != unset:
            raise ValueError(
                f"{name} must be left at {unset}, but it is {value}: a figure divides its data itself and chooses settings by its grid; see"
                " folds=, validation= and search="
            )
    methods = []
    for name, part in plain["methods"].items():
        if part is None:  # methods.Supervised=null leaves one out
            continue
        wrong = sorted(set(part) - {"learner", "settings", "grid"})
        if wrong:
            raise ValueError(f"methods.{name} must have learner, settings and grid, but it has {wrong[0]!r}")
        learner, grid = str(part.get("learner")), part.get("grid") or {}
        settings = plain["settings"] | (part.get("settings") or {})
        if not Method(name, learner).known_h:  # whose start and prior mean nothing
            grid = (plain["search"] or {}) | grid
        methods.append(Method(name, learner, settings, grid))
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
    if cfg.publish is not None and not protocol.inner_folds:
        raise ValueError("publish needs settings that validation data chose, but validation.folds is 0")
    if cfg.noise and cfg.joint is not None:
        raise ValueError(f"noise must be 0 with a joint feature map, whose features may be codes of no last digit, but it is {cfg.noise}")
    for name, values in cfg.by_fold.items():
        if len(values) < protocol.folds:
            raise ValueError(f"by_fold.{name} must have a value for each of the {protocol.folds} folds, but it has {len(values)}")
    for name, least in (("n_jobs", 1), ("memory", 1), ("examples", 0), ("noise", 0)):
        if cfg[name] is not None and cfg[name] < least:
            raise ValueError(f"{name} must be at least {least}, but it is {cfg[name]}")


def _source(cfg: DictConfig) -> str:
    """The function that makes the data."""
    made = cfg.data.images if "images" in cfg.data else cfg.data.samples
    return str(made._target_).rpartition(".")[2]


def describe(data: LatentDataModule, problem: Problem, source: str) -> str:
    """The data in a sentence."""
    counts, c = problem.candidates.counts, problem.candidates
    where = "embedded data, made from a seed" if source in EMBEDDED else "data on disk"
    item = "sample" if data.samples is not None else "image"
    found = (
        f"Data: {source} ({where}), {len(problem)} {item}s of {len(data.classes)} classes, {int(counts.min())} to {int(counts.max())}"
        f" candidates of {c.n_features} features per {item}, {float(counts.double().mean()):.1f} on average."
    )
    if problem.truth is not None:
        reached = 100 * recall(c, problem.truth)
        found += f" {reached:.1f} % of the images have one that overlaps the annotated box by half."
    return f"{found} Supervision in training: {'labels' if data.samples is not None else supervision(data)}."


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
