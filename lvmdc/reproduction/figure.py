"""A figure of the paper from a composed configuration: the work of scripts/reproduce.py."""

from __future__ import annotations

import logging
import re
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig

from lvmdc.features.build import build_candidates
from lvmdc.metrics import recall
from lvmdc.reproduction import sessions
from lvmdc.reproduction.chart import require
from lvmdc.reproduction.division import check_divisions
from lvmdc.reproduction.plan import describe_plan, plan_runs
from lvmdc.reproduction.pool import do_runs
from lvmdc.reproduction.problem import Problem
from lvmdc.reproduction.publish import publish
from lvmdc.reproduction.report import Report
from lvmdc.reproduction.run import Run
from lvmdc.reproduction.settings import check_rest, read_paper, read_protocol
from lvmdc.reproduction.store import Store, code_digest
from lvmdc.training.data import LatentDataModule
from lvmdc.training.record import describe_run

log = logging.getLogger(__name__)
EMBEDDED = ("cluttered_digits", "stick_actions")
PASSING = ("publish=", "n_jobs=", "memory=", "run=", "redo=", "out=", "paths.", "extras.", "hydra")  # words that change no result


class RunsFailed(RuntimeError):
    """Some runs ended in an error; all others are done and reported."""


def reproduce(cfg: DictConfig) -> Report:
    """Do what is not done of a figure's runs, then write the figure, tables and pictures; at the end RunsFailed if some ended in errors."""
    require("matplotlib", "scipy")
    protocol, paper = read_protocol(cfg), read_paper(cfg)
    check_rest(cfg, protocol)
    folder, store = Path(cfg.out), Store(cfg.out)
    data: LatentDataModule = instantiate(cfg.data, _convert_="all")
    candidates = build_candidates(data.pictures, data.proposals, data.features, data.cache_dir, data.progress, data.prior)
    problem = Problem.of(data.pictures, candidates)
    runs = plan_runs(protocol, problem.key)
    check_divisions({run.division for run in runs}, problem.y, problem.groups)
    about = describe(data, problem, str(cfg.data.pictures._target_).rpartition(".")[2])
    log.info("%s\n%s\n%s", cfg.title, about, describe_plan(protocol, runs))
    if cfg.run:
        do_missing(cfg, runs, problem, store)
    names = [method.name for method in protocol.methods]
    compare, against = (cfg.compare if cfg.compare in names else None), [name for name in cfg.against if name in names]
    results = [(run, store.read(run)) for run in runs]
    report = Report(cfg.name, cfg.title, about, command(sys.argv[1:]), protocol, paper, results, compare, against)
    report.write(folder)
    report.write_examples(folder, problem, data.pictures, cfg.examples)
    log.info("\n%s\n", "\n\n".join(table.text() for table in report.tables()))
    for name, place in (("figure", f"{cfg.name}.png"), ("table", "table.html"), ("examples", "examples.html"), ("all runs", "runs.csv")):
        if (folder / place).exists():
            log.info("%-9s %s", name, folder / place)
    failed = [run for run in runs if store.failure(run).exists()]
    if failed:
        raise RunsFailed(f"{len(failed)} of {len(runs)} runs failed, and are tried again next time; {store.failure(failed[0])} says why")
    if cfg.publish is not None:
        lacking = sum(result is None for _, result in results)
        if lacking:
            raise ValueError(f"publish needs all {len(runs)} runs, but {lacking} of them are not done")
        chart = (folder / f"{cfg.name}.png").read_bytes()
        log.info("published %s", publish(cfg.publish, cfg.name, report.section(folder), chart))
    return report


def do_missing(cfg: DictConfig, runs: Sequence[Run], problem: Problem, store: Store) -> None:
    """The runs that are not done yet, or, with `redo`, were done by other code."""
    found = {run: store.read(run) for run in runs}
    others = [run for run, result in found.items() if result is not None and result.get("code") != code_digest()]
    if others and not cfg.redo:
        log.warning("%d of the results are those of other code than this; redo=true does them again", len(others))
    again = set(others) if cfg.redo else set()
    left = list({run.key: run for run, result in found.items() if result is None or run in again}.values())
    log.info("%d of them are done already, %d are left", len(runs) - len(left), len(left))
    if not left:
        return
    samples = store.folder / f"samples-{problem.key[:16]}.npz"
    problem.save(samples)
    started = time.perf_counter()
    try:
        used = do_runs(left, str(samples), store, cfg.n_jobs, cfg.memory, cfg.extras.progress)
    except KeyboardInterrupt:
        done = sum(store.path(run).exists() for run in runs)
        log.info(
            "\ninterrupted; %d of %d runs are done and kept. To go on, say the same again: %s", done, len(runs), command(sys.argv[1:], ())
        )
        raise
    finally:
        samples.unlink(missing_ok=True)
    session = sessions.Session(len(left), time.perf_counter() - started, used.peak, used.processes)
    sessions.keep(store.folder, session, describe_run())
    log.info("%s", session)


def describe(data: LatentDataModule, problem: Problem, source: str) -> str:
    """The data in a sentence; whether they are embedded is said."""
    counts, c = problem.candidates.counts, problem.candidates
    where = "embedded data, made from a seed" if source in EMBEDDED else "data on disk"
    return (
        f"Data: {source} ({where}), {len(problem)} pictures of {len(data.classes)} classes, {int(counts.min())} to {int(counts.max())}"
        f" candidates of {c.n_features} features a picture, {float(counts.double().mean()):.1f} on average;"
        f" {100 * recall(c, problem.truth):.1f} % of the pictures have one that overlaps the annotated box by half."
    )


def quoted(words: Sequence[str]) -> list[str]:
    """Words of a command line with figure=1 as figure='1': Hydra takes a bare 1 for a number, which cannot name a choice.

    >>> quoted(["-m", "figure=1,1_cnn", "C=[1]"])
    ['-m', "figure='1',1_cnn", 'C=[1]']
    """
    return [re.sub(r"(?<=[=,])\d+(?=,|$)", r"'\g<0>'", word) if word.startswith("figure=") else word for word in words]


def command(words: Sequence[str], without: tuple[str, ...] = PASSING) -> str:
    """What to type to get the same results, less what changes none.

    >>> command(["figure='1'", "n_jobs=4", "publish=docs"])
    'python scripts/reproduce.py figure=1'
    """
    kept = (word for word in words if not word.startswith(without))
    typed = (word.replace("'", "") if word.startswith("figure=") else word for word in kept)
    return shlex.join(["python", "scripts/reproduce.py", *typed])
