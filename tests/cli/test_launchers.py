"""A sweep by submitit, on this machine as on a cluster: every run in a job of its own, all of them in one table."""

import pytest
from processes import train_script

from lvmdc.cli.table import collect

pytestmark = [pytest.mark.slow, pytest.mark.ranks]


def test_a_local_submitit_sweep_finishes_every_run(tmp_path):
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    words = [
        "-m", "hydra/launcher=submitit_local", "hydra.launcher.timeout_min=10",
        "experiment=minimal", "data.fold=0,1", "data.images.per_class=6", "method.max_iter=2", "callbacks=checkpoint", "logger=csv",
        "extras.progress=false", "extras.threads=1", "extras.report=false",
    ]  # fmt: skip
    code, shown = train_script(tmp_path, *words).end(600)
    assert code == 0, shown
    (sweep,) = tmp_path.glob("*/sweeps/*")
    assert sorted(path.parent.name for path in sweep.glob("*/results.json")) == ["0", "1"]
    assert list((sweep / ".submitit").iterdir())  # it was submitit that ran them
    assert collect(sweep).cells[0][:2] == ["all", "2"]
