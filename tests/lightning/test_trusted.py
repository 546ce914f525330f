"""What a checkpoint's configuration may construct, and what it may not."""

import os
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from torch import nn

from lvmdc import DISC, OverlapLoss
from lvmdc.cli.config import checked
from lvmdc.cli.train import train
from lvmdc.lightning.checkpoint import AtomicCheckpointIO, read_checkpoint, write_content
from lvmdc.lightning.trusted import CONFIGURED, construct, trust

ROOT = Path(__file__).resolve().parents[2]

# Names that resolve to something, and must not.
NAMES = [
    # modules that a module of ours imports, and what is in them
    "lvmdc.cli.config.tempfile.mkdtemp",
    "lvmdc.cli.config.shutil.rmtree",
    "lvmdc.cli.config.atexit.register",
    "lvmdc.reporting.record.subprocess.run",
    "lvmdc.lightning.checkpoint.torch.load",
    "lvmdc.lightning.checkpoint.torch.nn.Linear",
    "lvmdc.storage.files.os.system",
    "lvmdc.storage.files.Path.unlink",
    # modules, functions and methods of ours
    "lvmdc.storage.files",
    "lvmdc.storage.files.save_arrays",
    "lvmdc.storage.files.replacing",
    "lvmdc.cli.train.train",
    "lvmdc.lightning.trust",
    "lvmdc.lightning.trusted.construct",
    "lvmdc.storage.files.write_atomically",
    "lvmdc.reproduction.runner.Store",
    "lvmdc.vision.proposals.save_proposals",
    "lvmdc.Candidates.load",
    "lvmdc.DISC.fit",
    "lvmdc.DISC.__init__.__globals__",
    "lvmdc.FunctionLoss",
    "lvmdc.cli.prepare.prepare_mammals",
    "lvmdc.lightning.callbacks.Progress",
    # the standard library
    "builtins.eval",
    "builtins.exec",
    "builtins.open",
    "builtins.__import__",
    "os.system",
    "os.remove",
    "posix.system",
    "subprocess.Popen",
    "subprocess.check_output",
    "importlib.import_module",
    "pickle.loads",
    "shutil.rmtree",
    "functools.partial",
    "operator.attrgetter",
    "pathlib.Path",
    "eval",
    "",
    ".",
    "lvmdc",
    # torch and others
    "torch.load",
    "torch.hub.load",
    "torch.hub.load_state_dict_from_url",
    "torch.utils.model_zoo.load_url",
    "torch.utils.cpp_extension.load",
    "torch.nn.functional.relu",
    "torch.nn.modules.module.os.system",
    "torch.nn.init.kaiming_normal_",
    "torch.nn.Parameter",
    "torch.nn.utils.clip_grad_norm_",
    "torch.nn.modules",
    "torch.nn.Module.load_state_dict",
    "torch.optim.lr_scheduler.partial",
    "torch.optim.optimizer.Callable",
    "torch.distributed.init_process_group",
    "torchvision.models.resnet18",
    "pytorch_lightning.Trainer",
    "hydra.utils.instantiate",
    "hydra.utils.get_method",
    "omegaconf.OmegaConf.load",
    "numpy.load",
    "joblib.load",
]
BAD = {"_target_": "os.system", "_args_": ["touch sprung"]}
# The same where it is harder to see.
FORMS = [
    {"_target_": "lvmdc.DISC", "loss": BAD},
    {"_target_": "lvmdc.DISC", "_args_": [BAD]},
    {"_target_": "lvmdc.DISC", "_partial_": True, "loss": BAD},
    {"_target_": "lvmdc.DISC", "loss": {"_target_": "lvmdc.CostLoss", "_args_": [[[BAD]]]}},
    {"_target_": "lvmdc.DISC", "loss": {"a": [{"b": BAD}]}},
    {"_target_": "lvmdc.lightning.mlp", "_partial_": True, "hidden": [BAD]},
    {"loss": BAD},
    [BAD],
    {"_target_": "torch.nn.Sequential", "_args_": [{"_target_": "torch.hub.load", "_args_": ["a/b", "c"]}]},
    {"_target_": "functools.partial", "_args_": [{"_target_": "os.system", "_partial_": True}]},
    {"_target_": "torch.optim.lr_scheduler.LambdaLR", "_partial_": True, "lr_lambda": {"_target_": "builtins.eval", "_partial_": True}},
    {"_target_": ["os.system"]},
    {"_target_": {"_target_": "os.system"}},
    {"_target_": "lvmdc.OverlapLoss", "_recursive_": False},
    {"_target_": "lvmdc.OverlapLoss", "_partial_": "yes"},
    {"_target_": "lvmdc.OverlapLoss", "_args_": "os"},
    {"_target_": "lvmdc.OverlapLoss", "__class__": "os"},
    {"_target_": os.system},
    {"_target_": "lvmdc.OverlapLoss", "x": os.system},
    # interpolations and resolvers
    {"_target_": "${oc.env:TARGET}"},
    {"_target_": "lvmdc.${x}", "x": "DISC"},
    {"_target_": "lvmdc.DISC", "C": "${oc.env:HOME}"},
    {"_target_": "lvmdc.DISC", "C": "${oc.decode:'1'}"},
    {"_target_": "lvmdc.DISC", "C": "${run_dir:/tmp,a,b}"},
    {"_target_": "lvmdc.DISC", "C": "${oc.create:{a: 1}}"},
    {"_target_": "lvmdc.DISC", "loss": {"${oc.env:HOME}": 1}},
    {"_target_": "lvmdc.DISC", "_args_": ["${..x}"]},
]


@pytest.fixture(autouse=True)
def _nothing_ran(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TARGET", "os.system")
    monkeypatch.setattr(os, "system", lambda command: pytest.fail("it ran"))
    yield
    assert not list(tmp_path.glob("sprung*"))


@pytest.mark.parametrize("name", NAMES)
def test_a_name_outside_the_registry_is_refused_in_one_sentence_that_names_it(name):
    with pytest.raises(ValueError, match=r"^a\.ckpt asks for .*, which is not a part of lvmdc or torch") as caught:
        construct({"_target_": name}, "a.ckpt")
    assert f" {name}," in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("config", FORMS, ids=[str(form)[:60] for form in FORMS])
def test_a_hidden_form_is_refused_in_one_sentence(config):
    with pytest.raises(ValueError, match=r"^a\.ckpt") as caught:
        construct(config, "a.ckpt")
    assert "\n" not in str(caught.value)


def test_a_configuration_that_is_nested_without_end_is_refused():
    deep: dict = {}
    for _ in range(500):
        deep = {"a": deep}
    with pytest.raises(ValueError, match=r"a\.ckpt: its configuration is nested more than 30 levels deep"):
        construct(deep, "a.ckpt")


def test_all_names_are_checked_before_the_first_part_is_made(monkeypatch):
    monkeypatch.setattr(DISC, "__init__", lambda self, **settings: pytest.fail("it ran"))
    with pytest.raises(ValueError, match=r"asks for os\.system"):
        construct([{"_target_": "lvmdc.DISC"}, BAD], "a.ckpt")


def test_what_is_trusted_is_made_as_hydra_makes_it():
    learner = construct({"_target_": "lvmdc.DISC", "C": 3.0, "loss": {"_target_": "lvmdc.losses.OverlapLoss"}}, "a.ckpt")
    assert isinstance(learner, DISC)
    assert isinstance(learner.loss, OverlapLoss)
    layers = [{"_target_": "torch.nn.Linear", "_args_": [2, 3]}, {"_target_": "torch.nn.modules.activation.ReLU"}]
    network = construct({"_target_": "torch.nn.Sequential", "_args_": layers}, "a.ckpt")
    assert isinstance(network[0], nn.Linear)
    optimizer = construct({"_target_": "torch.optim.AdamW", "_partial_": True, "lr": 0.1}, "a.ckpt")(network.parameters())
    step = construct({"_target_": "torch.optim.lr_scheduler.StepLR", "_partial_": True, "step_size": 1}, "a.ckpt")(optimizer)
    assert isinstance(step, torch.optim.lr_scheduler.StepLR)
    assert construct({"a": [1, "b", None]}, "a.ckpt") == {"a": [1, "b", None]}


def test_settings_that_a_class_does_not_take_are_named_with_the_file():
    with pytest.raises(ValueError, match=r"a\.ckpt: lvmdc\.DISC cannot be made with its settings: .*'colour'"):
        construct({"_target_": "lvmdc.DISC", "colour": 1}, "a.ckpt")


def test_a_custom_class_is_made_once_the_program_trusts_it():
    class Own(OverlapLoss):
        pass

    name = f"{Own.__module__}.{Own.__qualname__}"
    with pytest.raises(ValueError, match="is not run"):
        construct({"_target_": name}, "a.ckpt")
    trust(Own)
    assert isinstance(construct({"_target_": name}, "a.ckpt"), Own)


# ---- what the shipped configurations need ------------------------------------------------------------------------------

NOT_READ = ("callbacks", "logger", "trainer", "hydra", "debug")  # groups that a checkpoint's reader does not look at


def targets(node) -> set[str]:
    if isinstance(node, dict):
        own = {node["_target_"]} if "_target_" in node else set()
        return own.union(*(targets(value) for value in node.values()))
    return set().union(*(targets(value) for value in node)) if isinstance(node, list) else set()


def test_the_registry_has_every_name_of_the_shipped_configurations():
    files = [path for path in (ROOT / "configs").rglob("*.yaml") if path.parent.name not in NOT_READ]
    named = set().union(*(targets(OmegaConf.to_container(OmegaConf.load(path), resolve=False)) for path in files))
    assert len(named) > 40
    for name in sorted(named):
        construct({"_target_": name, "_partial_": True}, "a.ckpt")


@pytest.mark.parametrize("experiment", sorted(path.stem for path in (ROOT / "configs" / "experiment").glob("*.yaml")))
def test_the_configuration_that_an_experiment_keeps_may_be_made_again(experiment, config, tmp_path):
    cfg = checked(
        config(
            "train",
            f"experiment={experiment}",
            f"paths.output_dir={tmp_path}",
            *(["data.images.path=photos"] if experiment == "photos" else []),
        )
    )
    kept = OmegaConf.to_container(cfg, resolve=True)

    def later(node):  # every part is found and given its settings, but none is made
        if isinstance(node, dict):
            return {key: later(value) for key, value in node.items()} | ({"_partial_": True} if "_target_" in node else {})
        return [later(value) for value in node] if isinstance(node, list) else node

    for part in ("method", "module", "data", "proposals", "features"):
        construct(later(kept[part]), "a.ckpt")
    construct(kept["method"], "a.ckpt").check_parameters()


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides", [["module=exact"], ["module=alternating", "prediction=mlp", "trainer.max_epochs=1", "kernel_map=chi2"]]
)
def test_a_small_training_writes_a_checkpoint_that_loads(overrides, config, small, tmp_path):
    places = [f"paths.output_dir={tmp_path}", f"paths.log_dir={tmp_path}", "extras.report=false", "logger=csv", "method.tol=0.5"]
    train(config("train", *small, "experiment=minimal", "data.images.per_class=4", *overrides, *places))
    checkpoint = read_checkpoint(tmp_path / "checkpoints" / "last.ckpt")
    assert checkpoint.model().classes == checkpoint.overridden([], str(tmp_path / "cache")).data().classes


@pytest.mark.slow
def test_a_whole_checkpoint_with_a_trap_is_refused_when_it_is_used(finished, tmp_path):
    content = torch.load(finished / "checkpoints" / "last.ckpt", weights_only=True)
    content["lvmdc"]["config"]["method"]["loss"] = BAD
    write_content(tmp_path / "trap.ckpt", content)
    with pytest.raises(ValueError, match=r"ckpt_path: .*trap\.ckpt asks for os\.system, which is not a part of"):
        read_checkpoint(tmp_path / "trap.ckpt").model()
    content["lvmdc"]["config"]["task_name"] = "${oc.env:HOME}"
    write_content(tmp_path / "trap.ckpt", content)
    with pytest.raises(ValueError, match=r"has an interpolation at task_name, \$\{oc\.env:HOME\}, which is not resolved"):
        read_checkpoint(tmp_path / "trap.ckpt")


def test_the_registry_holds_no_name_twice():
    listed = [name for names in CONFIGURED.values() for name in names.split()]
    assert len(set(listed)) == len(listed)


def test_a_resumed_checkpoint_cannot_have_files_removed_elsewhere(tmp_path):
    """It keeps a list of older checkpoints that Lightning removes when better ones are written."""
    (tmp_path / "run").mkdir()
    for name in ("run/old.ckpt", "mine.txt"):
        (tmp_path / name).write_text("whole")
    checkpoints = AtomicCheckpointIO()
    checkpoints.save_checkpoint({}, tmp_path / "run" / "new.ckpt")
    for path in (tmp_path / "mine.txt", f"{tmp_path}/run/../mine.txt", tmp_path, f"{tmp_path}/run/..", "memory://a/b"):
        checkpoints.remove_checkpoint(path)
    checkpoints.remove_checkpoint(tmp_path / "run" / "old.ckpt")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["mine.txt", "new.ckpt", "run"]
