"""The notebooks run from top to bottom, on fewer images where they take long."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
FEWER = {"fine_tuning": {"per_class=25": "per_class=6", "train(3e-4, 4)": "train(3e-4, 2)"}}

pytestmark = [pytest.mark.slow, pytest.mark.ranks]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook_runs_without_an_error(path):
    text = path.read_text(encoding="utf-8")
    for many, few in FEWER.get(path.stem, {}).items():
        assert text.count(many) == 1
        text = text.replace(many, few)
    notebook = nbformat.reads(text, as_version=4)
    NotebookClient(notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}}).execute()
    assert all(cell.outputs for cell in notebook.cells if cell.cell_type == "code")
