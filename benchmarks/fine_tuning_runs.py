"""The trainings of fine_tuning.py: each is done once, and its measures kept in a file."""

import gc
import json
import logging
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from lvmdc.cli import config as resolvers
from lvmdc.learners import LatentLearner
from lvmdc.lightning import EndToEndModule, LatentDataModule, Samples
from lvmdc.lightning.module import evaluate
from lvmdc.lightning.region_features import RegionFeatures
from lvmdc.reproduction import Division
from lvmdc.storage.files import write_atomically
from lvmdc.vision.features import build_candidates
from lvmdc.vision.features.regions import LENGTH
from lvmdc.vision.metrics import true_candidate

HOG, FROZEN, TUNED = "HOG", "frozen CNN", "fine-tuned CNN"
EXPERIMENT = "experiment=object_detection_cnn_mammals"
CONFIGS = Path(__file__).resolve().parents[1] / "configs"
Measures = dict[str, float]


@dataclass(frozen=True)
class Training:
    """What is learned, by whom, from which part of the images."""

    features: str
    method: str
    loss: str
    fold: int

    @property
    def name(self) -> str:
        words = (self.features, self.method, self.loss, f"fold{self.fold}")
        return "-".join(word.replace(" ", "_") for word in words)


def composed(*overrides: str) -> DictConfig:
    """The configuration as `python scripts/train.py experiment=object_detection_cnn_mammals …` has it."""
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        return compose("train", overrides=[EXPERIMENT, "paths.output_dir=unused", *overrides])


class Trainings:
    """The images of all parts, described in every way, and the results of the trainings that are done."""

    def __init__(self, folder: Path):
        resolvers.register()
        logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
        warnings.filterwarnings("ignore", module="pytorch_lightning")
        warnings.filterwarnings("ignore", message=".*LeafSpec.*|.*in eval mode at the start of training.*")
        self.folder, self.cfg = folder, composed()
        self.data: LatentDataModule = instantiate(self.cfg.data, _convert_="all")
        self._described: dict[str, Samples] = {}
        self._regions = RegionFeatures(instantiate(self.cfg.module.network, _convert_="all"))

    def measures(self, training: Training, do: bool = True) -> Measures | None:
        """Those of the held-out part, from the file where they are kept or, with `do`, by learning."""
        path = self.folder / f"{training.name}.json"
        settings = json.loads(json.dumps(self._settings(training)))
        if path.exists():
            kept = json.loads(path.read_text(encoding="utf-8"))
            if kept["settings"] == settings:
                return kept["measures"]
        if not do:
            return None
        started = time.process_time()
        found = self._tuned(training) if training.features == TUNED else self._exact(training)
        gc.collect()  # a trainer and its module hold each other, and all features with them
        found["cpu_seconds"] = time.process_time() - started
        write_atomically(path, json.dumps({"settings": settings, "measures": found}, indent=2).encode())
        return found

    def _settings(self, training: Training) -> dict[str, Any]:
        cfg = self._config(training)
        parts = {"method": cfg.method, "proposals": cfg.proposals}
        if training.features == HOG:
            parts["features"] = cfg.features
        elif training.features == FROZEN:
            parts["network"] = OmegaConf.masked_copy(cfg.module.network, ["backbone", "weights", "stride", "longer_side", "grid"])
        else:
            parts["module"] = cfg.module
        plain = {name: OmegaConf.to_container(part, resolve=True) for name, part in parts.items()}
        return plain | ({"epochs": cfg.trainer.max_epochs, "batch": cfg.data.batch_size} if training.features == TUNED else {})

    def _config(self, training: Training) -> DictConfig:
        given = [f"method={training.method.lower()}", f"loss={training.loss}"]
        return composed(*given, *(["features=hog_mammals"] if training.features == HOG else []))

    def _parts(self, training: Training) -> tuple[Samples, Samples]:
        """What is learned from and what is held out, with the features; those of the network as long as they are in learning."""
        every = self._samples(training.features)
        parts = [every.subset(index) for index in Division(training.fold).parts(every.y, every.items.groups)]
        if training.features == FROZEN:
            factor = LENGTH / parts[0].candidates.features.double().square().sum(dim=1).mean().sqrt().float()
            for part in parts:
                part.candidates.features.mul_(factor)
        return parts[0], parts[1]

    def _samples(self, features: str) -> Samples:
        """All images."""
        if features not in self._described:
            kind = composed("features=hog_mammals").features if features == HOG else self.cfg.features
            images = self.data.images
            candidates = build_candidates(images, self.data.proposals, instantiate(kind, _convert_="all"), self.data.cache_dir)
            assert images.boxes is not None
            samples = Samples(images, candidates, images.y, true_candidate(candidates, images.boxes)[0])
            if features == FROZEN:
                samples = replace(samples, candidates=self._regions.describe(samples, calibrate=True, progress=True))
            self._described[features] = samples
        return self._described[features]

    def _exact(self, training: Training) -> Measures:
        train, test = self._parts(training)
        learner: LatentLearner = instantiate(self._config(training).method, _convert_="all")
        learner.fit(train.candidates, train.y)
        return evaluate(test, learner.loss_, *learner.predict(test.candidates)) | {"objective": learner.objective_}

    def _tuned(self, training: Training) -> Measures:
        cfg = self._config(training)
        data: LatentDataModule = instantiate(cfg.data, _convert_="all")
        data.images = self.data.images
        data.train, data.test = self._parts(training)
        learner: LatentLearner = instantiate(cfg.method, _convert_="all")
        pl.seed_everything(cfg.seed, workers=True, verbose=False)
        module: EndToEndModule = instantiate(cfg.module, _partial_=True, _convert_="all")(learner=learner)
        module.regions.kept = self._regions.kept  # what the frozen part made of the images is the same in all trainings
        quiet = {"logger": False, "enable_checkpointing": False, "enable_model_summary": False, "enable_progress_bar": False}
        trainer = pl.Trainer(max_epochs=cfg.trainer.max_epochs, accelerator=cfg.trainer.accelerator, limit_val_batches=0, **quiet)
        trainer.fit(module, datamodule=data)
        return module.measure(data.test) | {"objective": module.history()[-1]["objective"]}
