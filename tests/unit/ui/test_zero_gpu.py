"""A Space that is lent a GPU. The package `spaces` is played, with its real fork and its real pickles."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from studio.dataset.audio import save_pcm
from studio.ui.zero_gpu import gpu_seconds
from tests.reading import read_manifest
from tests.studio_process import ROOT

SPACES = """
import os, pickle, sys

CAME_FIRST, asked = "torch" not in sys.modules, []

def GPU(duration):
    def lend(task):
        def carry_out(*args):
            asked.append(duration(*args))
            assert "torch" not in sys.modules, "nothing here may touch CUDA"
            args, (read, write) = pickle.dumps(args), os.pipe()
            if os.fork() == 0:
                with os.fdopen(write, "wb") as answer:
                    pickle.dump(task(*pickle.loads(args)), answer)
                os._exit(0)
            os.close(write)
            with os.fdopen(read, "rb") as answer:
                return pickle.load(answer)
        return carry_out
    return lend
"""
STUDIO = """
import json, sys
from pathlib import Path
from studio.ui import serve
from studio.errors import AudioError
from studio.settings import Settings
from studio.transcription.engine import TranscribeOptions

services = serve.open_services(Settings.from_env())
hear = services.engines.transcribe
heard = hear("demo", Path(sys.argv[1]), TranscribeOptions(language="en"), lambda *_: None, lambda: False)
try:
    hear("demo", Path(__file__), TranscribeOptions())
except AudioError as error:
    refused = str(error)
import spaces
print(json.dumps([spaces.CAME_FIRST, spaces.asked, heard.text, heard.duration_seconds, refused]))
services.close()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Spaces are Linux, where processes fork")
def test_recordings_are_heard_in_a_fork_of_a_process_that_never_touches_cuda(
    tmp_path: Path, environ: dict[str, str], demo_speech: Path
) -> None:
    (tmp_path / "spaces.py").write_text(SPACES)
    script = tmp_path / "studio_on_space.py"
    script.write_text(STUDIO)
    example = read_manifest("demo:test", max_rows=1).examples[0]
    on_space = {
        **environ,
        "SPACE_ID": "ada/studio",
        "SPACES_ZERO_GPU": "true",
        "STUDIO_HOME": str(tmp_path / "home"),
        "PYTHONPATH": f"{tmp_path}:{ROOT}",
    }
    done = subprocess.run(
        [sys.executable, str(script), str(example.audio_path)],
        env=on_space,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    came_first, asked, text, seconds, refused = json.loads(done.stdout.splitlines()[-1])
    assert came_first and asked == [gpu_seconds(example.audio_path), 30]
    assert text.strip() and seconds > 0 and "studio_on_space.py" in refused


@pytest.mark.parametrize(("seconds", "asked"), [(1.0, 31), (60.0, 36), (600.0, 90)])
def test_a_gpu_is_asked_for_as_long_as_the_recording_needs(
    tmp_path: Path, seconds: float, asked: int
) -> None:
    recording = save_pcm(np.zeros(int(8000 * seconds), np.int16), 8000, tmp_path / "a.wav")
    assert gpu_seconds(recording) == asked
    assert gpu_seconds(tmp_path / "none.wav") == 30
