"""The notebooks run from top to bottom, as they are shipped.

``CORRELATOR_REWRITE=1 python -m pytest tests/test_notebooks.py`` ships what they say now; read it as a diff.
"""

import os
from pathlib import Path

import nbformat
import notebooklogs
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def test_there_is_a_notebook():
    assert NOTEBOOKS


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_the_notebook_runs_and_is_shipped_with_what_it_says_now(path):
    notebook = nbformat.read(path, as_version=4)
    place = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=120, record_timing=False, resources=place).execute()
    if os.environ.get("CORRELATOR_REWRITE"):
        nbformat.write(notebook, path)
    assert said(notebook) and said(notebook) == said(nbformat.read(path, as_version=4))


def said(notebook: nbformat.NotebookNode) -> list[str]:
    """What the cells printed and gave, as text; none of it is an error."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    return [output["text"] if output.output_type == "stream" else output["data"]["text/plain"] for output in outputs]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_the_notebook_is_shipped_with_its_outputs_and_starts_in_one_cell(path):
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert all(cell.outputs for cell in cells)
    kinds = {kind for cell in cells for out in cell.outputs for kind in out.get("data", {})}
    assert "image/png" in kinds  # a picture that a code host shows without running anything
    assert not [cell.source for cell in cells[1:] if "import " in cell.source]


def test_the_example_logs_are_those_that_their_builder_writes(tmp_path):
    notebooklogs.write_all(tmp_path)
    written, shipped = files_below(tmp_path), files_below(notebooklogs.FOLDER)
    assert written and written == shipped


def files_below(folder: Path) -> dict[str, bytes]:
    """Every file's bytes, by its path inside the folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
