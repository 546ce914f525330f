"""Figure 1 on the photographs themselves."""

import os
from pathlib import Path

import pytest

from lvmdc.cli.reproduce import reproduce

DATA = Path(os.environ.get("LVMDC_DATA", "data")) / "mammals" / "hog.npz"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_data,
    pytest.mark.skipif("LVMDC_DATA" not in os.environ or not DATA.is_file(), reason="LVMDC_DATA holds no mammals/hog.npz"),
]


def test_one_fold_of_figure_1_gives_the_losses_known_for_it(config, tmp_path):
    # Five folds of the supervised bound at C = 1: 0/1 loss 58.3 ± 4.0 %, overlap loss 32.8 ± 4.2 %; one fold scatters more.
    left_out = ["methods.LSVM=null", "methods.ILSVM=null", "methods.DISC=null", "validation.folds=0", "examples=0"]
    size = ["C=[1.0]", "folds=1", "n_jobs=1", "extras.progress=false"]
    cfg = config("figure='1'", *left_out, *size, f"out='{tmp_path / 'out'}'", f"paths.log_dir='{tmp_path}'")
    found = {summary.loss: summary.best for summary in reproduce(cfg).summaries}
    assert 0.40 <= found["zero_one"].mean("loss") <= 0.75
    assert 0.20 <= found["overlap"].mean("loss") <= 0.45
    assert found["overlap"].mean("loss") < found["overlap"].mean("loss_annotated")
    assert found["overlap"].mean("corloc") >= 0.8
    assert "271 images of 6 classes, 1 to 345 candidates of 1488 features" in (tmp_path / "out" / "table.md").read_text(encoding="utf-8")
    assert (tmp_path / "out" / "figure_1.png").stat().st_size > 0
