"""Checkpoints from anywhere: tensors and plain data with a checksum, and nothing that runs."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from lightning_fabric.plugins import TorchCheckpointIO
from omegaconf import OmegaConf
from torch import Tensor

from lvmdc.learners import LatentLearner
from lvmdc.lightning.data import LatentDataModule
from lvmdc.lightning.module import CHECKPOINT_KEY, LatentModule
from lvmdc.lightning.renamed import renamed_config, renamed_words
from lvmdc.lightning.trusted import DEPTH, check_plain, construct
from lvmdc.losses import Loss
from lvmdc.priors import Prior
from lvmdc.storage.arrays import AGAIN, add_checksum, check_parts, verify_checksum
from lvmdc.storage.files import replacing

log = logging.getLogger(__name__)
ENTRIES = {"module": str, "config": dict, "classes": list, "learned": dict}  # what a checkpoint says of itself, and of which type
DETECTOR_KEY = "lvmdc detector"  # in place of CHECKPOINT_KEY, in the detectors of version 0.1


@dataclass(frozen=True)
class Checkpoint:
    """What a file of ours says of itself: the module that wrote it, its configuration, the names of its classes, and what was learned."""

    path: Path
    module: str
    config: dict[str, Any]
    classes: list[str]
    learned: dict[str, Any]
    resumes: bool = True  # whether Lightning can go on from it; a detector of version 0.1 has only what was learned
    maps_dir: str | None = None  # where features that keep their maps keep them; what the file says is ignored

    def overridden(self, overrides: list[str], cache_dir: str | None = None) -> Checkpoint:
        """The same with overrides of its configuration from the command line, such as `data.fold=2`; candidates and maps are kept in
        `cache_dir`."""
        words = renamed_words(overrides)
        with self.named_errors():
            both = OmegaConf.merge(OmegaConf.create(self.config), OmegaConf.from_dotlist(words))
            config: dict[str, Any] = OmegaConf.to_container(both, resolve=True)  # type: ignore[assignment]
            if "cache_dir" in config["data"] and not any(word.startswith("data.cache_dir=") for word in words):
                config["data"]["cache_dir"] = cache_dir
        return replace(self, config=config, maps_dir=cache_dir)

    def part(self, name: str, kind: type) -> Any:
        """What a part of its configuration describes, such as its proposals; refused if it is of another kind."""
        with self.named_errors():
            config = _placed(self.config[name], self.maps_dir)
        made = construct(config, f"ckpt_path: {self.path}")
        with self.named_errors():
            _check_kind(name, made, kind)
        return made

    def model(self) -> LatentModule:
        """The module that wrote it, ready to predict."""
        learner: LatentLearner = self.part("method", LatentLearner)
        with self.named_errors():
            if learner.loss is not None:
                _check_kind("loss", learner.loss, Loss)
            learner.check_parameters()
            make = construct(self.config["module"] | {"_partial_": True}, f"ckpt_path: {self.path}")
            model: LatentModule = make(learner=learner, config=self.config)
            _check_kind("module", model, LatentModule)
            model.classes = list(self.classes)
            self._check_sizes()
            model.load_learned(self.learned)
            model.check_ready()
        return model

    def prior(self) -> Prior | None:
        """The prior as it was fitted; None where there was none."""
        with self.named_errors():
            config = _placed(self.config["data"].get("prior") or None, self.maps_dir)
        if config is None:
            return None
        made: Prior = construct(config, f"ckpt_path: {self.path}")
        with self.named_errors():
            _check_kind("prior", made, Prior)
            made.load_state_dict(self.learned.get("prior", {}))
        return made

    @property
    def prior_columns(self) -> float:
        """The factor on the columns of the prior."""
        with self.named_errors():
            return float(self.config["data"].get("prior_columns", 0.0))

    def data(self) -> LatentDataModule:
        """The data that it was learned from, or others by `overridden`."""
        data: LatentDataModule = self.part("data", LatentDataModule)
        self.check_fits(data.classes)
        return data

    def check_fits(self, classes: list[str]) -> None:
        """Refuse data of other classes than it learned."""
        if self.classes != classes:
            known = f"knows {len(self.classes)} classes ({_few(self.classes)})"
            raise ValueError(f"ckpt_path: {self.path} {known}, but the data have {len(classes)} ({_few(classes)})")

    def _check_sizes(self) -> None:
        """Refuse numbers of features or classes that what was learned is too small for: memory would be taken for them."""
        learned = sum(tensor.numel() for tensor in _tensors(self.learned))
        for name in ("n_features", "n_classes", "n_phi"):
            size = self.learned.get(name, 1)
            if not isinstance(size, int) or not 1 <= size <= learned:
                raise ValueError(
                    f"{name} must be at least 1 and at most the {learned} numbers that were learned, but it is {str(size)[:60]}"
                )

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        """Turn whatever goes wrong inside into a sentence that names the file."""
        try:
            yield
        except Exception as error:
            if str(error).startswith("ckpt_path: "):
                raise
            reason = (str(error) or type(error).__name__).splitlines()[0]
            if isinstance(error, KeyError):
                reason = f"it lacks the entry {reason}"
            raise ValueError(f"ckpt_path: {self.path} does not hold what a checkpoint of lvmdc holds: {reason}") from error


def find_checkpoint(path: str | Path) -> Path:
    """The file that `ckpt_path` names: a checkpoint, or the last one of a run folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as run:
    ...     Path(run, "checkpoints").mkdir()
    ...     Path(run, "checkpoints", "last.ckpt").touch()
    ...     find_checkpoint(run).relative_to(run).as_posix()
    'checkpoints/last.ckpt'
    """
    path = Path(path)
    last = path / "checkpoints" / "last.ckpt"
    if path.is_dir() and not last.is_file():
        raise FileNotFoundError(f"ckpt_path: {path} must be a checkpoint or a run folder, but {last} does not exist")
    return last if path.is_dir() else path


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint, or the last one of a run folder, or say in a sentence why it is none."""
    path = find_checkpoint(path)
    content = read_content(path)
    found, resumes = content.get(CHECKPOINT_KEY), True
    if found is None and DETECTOR_KEY in content:
        found, resumes = content[DETECTOR_KEY], False
        found = found | {"module": "DetectorModule"} if isinstance(found, dict) else found
    if found is None:
        raise ValueError(f"ckpt_path: {path} is not a checkpoint of lvmdc: it lacks the entry {CHECKPOINT_KEY!r}")
    if not isinstance(found, dict) or sorted(map(str, found)) != sorted(ENTRIES):
        held = sorted(map(str, found)) if isinstance(found, dict) else type(found).__name__
        raise ValueError(f"ckpt_path: {path} must hold the entries {', '.join(ENTRIES)}, but it holds {held}")
    for name, kind in ENTRIES.items():
        if not isinstance(found[name], kind):
            kinds = f"of type {kind.__name__}, but it is of type {type(found[name]).__name__}"
            raise ValueError(f"ckpt_path: {path} must have an entry {name!r} {kinds}")
    if not all(isinstance(name, str) for name in found["classes"]):
        raise ValueError(f"ckpt_path: {path} must name its classes by text, but it does not")
    check_plain(found["config"], f"ckpt_path: {path}")
    try:
        _check_numbers(found["learned"])
    except ValueError as error:
        raise ValueError(f"ckpt_path: {path} does not hold what a checkpoint of lvmdc holds: {error}") from None
    config = renamed_config(found["config"])
    if isinstance(config.get("data"), dict) and "cache_dir" in config["data"]:
        config["data"]["cache_dir"] = None  # a checkpoint does not choose where files are written
    return Checkpoint(path, **found | {"config": config}, resumes=resumes)


def read_content(path: str | Path) -> dict[Any, Any]:
    """All that a file holds that `write_content` wrote: tensors and plain data. Anything else is refused in a sentence; no code is run.

    A file without a checksum, as versions up to 0.1 wrote, is read with a warning.
    """
    path, wrong = Path(path), f"ckpt_path: {path} is not a checkpoint that can be read"
    if not path.is_file():
        raise FileNotFoundError(f"ckpt_path: {path} does not exist")
    with path.open("rb") as file:
        if file.read(4) != b"PK\3\4":
            raise ValueError(f"{wrong}: it does not begin as one; {AGAIN}")
    try:
        verified = verify_checksum(path, "a checkpoint")
    except ValueError as error:
        raise ValueError(f"ckpt_path: {error}") from None
    try:
        if not verified:
            check_parts(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
        _check_tensors(content)
    except Exception as error:  # torch raises a dozen kinds for a file that is something else
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"{wrong}: {reason}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{wrong}: it must hold a table of entries, but it holds {type(content).__name__}")
    if not verified:
        log.warning("%s has no checksum, so that damage may stay unnoticed; a checkpoint that is written now has one", path)
    return content


def write_content(path: str | Path, content: dict[str, Any]) -> None:
    """Write tensors and plain data with a checksum; a reader sees the file before or this one, whole.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_content(f"{folder}/a.ckpt", {"w": torch.ones(2)})
    ...     read_content(f"{folder}/a.ckpt")
    {'w': tensor([1., 1.])}
    """
    whole = io.BytesIO()  # torch's own writer does not say why it could not write to a file
    torch.save(content, whole)
    with replacing(path) as file:
        file.write(whole.getbuffer())
        add_checksum(file)


class AtomicCheckpointIO(TorchCheckpointIO):
    """How Lightning writes and removes checkpoints here: atomically, with a checksum, and only where this run writes some.

    A checkpoint that is resumed says which older ones may be removed, and it may come from anyone.
    """

    def __init__(self) -> None:
        super().__init__()
        self._folders: set[str] = set()

    def remove_checkpoint(self, path: Any) -> None:
        if _folder(path) in self._folders and ("://" in str(path) or Path(path).is_file()):
            super().remove_checkpoint(path)

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        self._folders.add(_folder(path))
        if "://" in str(path):  # remote storage, which replaces whole files by itself
            super().save_checkpoint(checkpoint, path, storage_options)
        else:
            write_content(path, checkpoint)


def _placed(config: Any, maps_dir: str | None) -> Any:
    """A configuration whose features keep their maps in `maps_dir`, if they keep any."""
    if isinstance(config, dict):
        return {key: maps_dir if key == "maps_dir" and value is not None else _placed(value, maps_dir) for key, value in config.items()}
    return [_placed(value, maps_dir) for value in config] if isinstance(config, list) else config


def _check_kind(name: str, made: Any, kind: type) -> None:
    if not isinstance(made, kind):
        raise ValueError(f"its {name} must be of type {kind.__name__}, but it is of type {type(made).__name__}")


def _folder(path: Any) -> str:
    return str(path).rpartition("/")[0] if "://" in str(path) else str(Path(path).resolve().parent)


def _check_numbers(learned: Any, name: str = "learned", depth: int = 0) -> None:
    """Refuse tensors that hold NaN, a history that is not made of numbers, and nesting without end."""
    if depth > DEPTH:
        raise ValueError(f"it is nested more than {DEPTH} levels deep")
    if isinstance(learned, Tensor):
        if learned.is_floating_point() and bool(learned.isnan().any()):
            raise ValueError(f"{name} must hold numbers, but it holds NaN")
    elif isinstance(learned, dict):
        for key, value in learned.items():
            _check_numbers(value, f"{name}.{key}", depth + 1)
            if "history" in name.split(".") and not isinstance(value, list | dict) and type(value) not in (int, float):
                raise ValueError(f"{name}.{key} must be a number, but it is {str(value)[:60]!r}")
    elif isinstance(learned, list):
        for value in learned:
            _check_numbers(value, name, depth + 1)


def _check_tensors(content: Any) -> None:
    """Refuse tensors that claim more numbers than the file has: copies of them would fill the memory."""
    for tensor in _tensors(content):
        if tensor.layout == torch.strided and tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            raise ValueError(f"a tensor of shape {tuple(tensor.shape)} claims more numbers than there are")


def _tensors(content: Any) -> Iterator[Tensor]:
    if isinstance(content, Tensor):
        yield content
    elif isinstance(content, dict | list | tuple):
        for value in content.values() if isinstance(content, dict) else content:
            yield from _tensors(value)


def _few(names: list[str]) -> str:
    return ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
