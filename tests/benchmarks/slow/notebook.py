"""The notebook for Colab and Kaggle, from its first cell to its last, with the demo and without a hub."""

from pathlib import Path

import httpx
import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell

from tests.event_loop import run_in_loop
from tests.studio_process import ROOT

NOTEBOOK = ROOT / "assets" / "whisper_studio.ipynb"
GIVEN = """
PASSWORD, PUBLIC_LINK, MAX_SAMPLES = "a-long-password", False, 2
TRAIN_OPTIONS = ["--max_steps", 1, "--max_train_samples", 8, "--max_eval_samples", 2]
TRAIN_OPTIONS += ["--eval_on_start", False, "--replay_share", 0, "--capability_check", False]
"""
ASKS_THE_PAGE = """
import base64, urllib.error, urllib.request
link = told.partition(wanted)[2].split()[0]
asked = urllib.request.Request(f"{link}/config")
try:
    urllib.request.urlopen(asked)
except urllib.error.HTTPError as error:
    print("without the password:", error.code)
asked.add_header("Authorization", "Basic " + base64.b64encode(b"studio:a-long-password").decode())
print("with the password:", urllib.request.urlopen(asked).status)
"""


@pytest.mark.timeout(1800)
def test_every_cell_runs_on_the_demo_where_no_model_can_be_downloaded(
    environ: dict[str, str], studio_home: Path, tmp_path: Path
) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    sources = [cell.source for cell in notebook.cells]
    (given,) = (number for number, cell in enumerate(notebook.cells) if cell.metadata.get("tags"))
    opens_page = next(number for number, source in enumerate(sources) if "GRADIO_SHARE" in source)
    notebook.cells.insert(opens_page + 1, new_code_cell(ASKS_THE_PAGE))
    notebook.cells.insert(given + 1, new_code_cell(GIVEN))

    variables = {**environ, "STUDIO_HOME": str(studio_home), "PYTHONPATH": str(ROOT)}
    client = NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(tmp_path)}})
    run_in_loop(client.async_execute(env=variables))

    # The kernel has ended, and the page with it.
    link = notebook.cells[opens_page + 1].outputs[0].text.split()[0]
    with pytest.raises(httpx.ConnectError):
        httpx.get(link)
    said = ["".join(out.get("text", "") for out in cell.get("outputs", ())) for cell in notebook.cells]
    assert "name: studio  password: a-long-password" in said[opens_page + 1]
    assert said[opens_page + 2].splitlines() == ["without the password: 401", "with the password: 200"]
    training, captions, errors, exported = said[-4:]
    # The base that was asked for cannot be had: the demo model takes its place.
    assert "model hub did not answer" in training and "Run notebook-" in training, training
    assert (tmp_path / "my-model" / "adapter_model.safetensors").is_file()
    assert "00:00:0" in captions and " --> " in captions, captions
    assert "demo" in errors and "my-model" in errors, errors
    assert "the same tokens" in exported and (studio_home / "models" / "notebook-export").is_dir(), exported
