"""The container's file, step by step without Docker: what it copies, starts and asks is there and works."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import yaml

from tests.studio_process import ROOT, StudioProcess

STEPS = re.findall(
    r"^([A-Z]+) (.+)$", (ROOT / "assets" / "docker" / "Dockerfile").read_text("utf-8"), re.MULTILINE
)


def said(step: str) -> list[str]:
    return [words for name, words in STEPS if name == step]


def test_compose_builds_this_file_and_keeps_all_in_one_volume() -> None:
    folder = ROOT / "assets" / "docker"
    told = yaml.safe_load((folder / "compose.yaml").read_text("utf-8"))
    (studio,) = told["services"].values()
    build = studio["build"]
    assert (folder / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).samefile(folder / "Dockerfile")
    (volume,) = told["volumes"]
    assert studio["volumes"] == [f"{volume}:{said('VOLUME')[0]}"]
    assert [port.rpartition(":")[2] for port in studio["ports"]] == said("EXPOSE")
    assert all(port.startswith("127.0.0.1:") for port in studio["ports"])
    # A password that is not given ends the start, with a sentence; so does a key.
    for name in ("STUDIO_AUTH", "STUDIO_API_KEY"):
        assert studio["environment"][name].startswith(f"${{{name}:?"), name


def test_what_the_container_copies_starts_with_a_login_and_says_that_it_is_well(
    environ: dict[str, str], tmp_path: Path
) -> None:
    checkout = tmp_path / "app"
    checkout.mkdir()
    for words in said("COPY"):
        *sources, target = words.split()
        for source in sources:
            copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
            copy(ROOT / source, checkout / (target if (ROOT / source).is_dir() else source))
    variables = dict(pair.split("=", 1) for words in said("ENV") for pair in words.split())
    assert variables["GRADIO_SERVER_NAME"] == "0.0.0.0" and said("USER") == ["studio"]
    command = json.loads(said("CMD")[-1])
    assert command == ["python", "app.py"] and said("HEALTHCHECK")

    home = tmp_path / "data"
    given = {**environ, **variables, "STUDIO_AUTH": "me:a-long-password", "HF_HUB_CACHE": str(home / "hub")}
    command = ["env", f"GRADIO_SERVER_NAME={variables['GRADIO_SERVER_NAME']}", sys.executable, command[1]]
    with StudioProcess(home, given, command=command, checkout=checkout) as studio:
        asked = json.loads(said("HEALTHCHECK")[0].partition("CMD ")[2])
        well = {**given, "GRADIO_SERVER_PORT": str(studio.port)}
        assert subprocess.run(asked, env=well, cwd=checkout).returncode == 0
        assert httpx.get(f"{studio.url}/config").status_code == 401
        assert httpx.get(f"{studio.url}/config", auth=("me", "a-long-password")).status_code == 200
    assert subprocess.run(asked, env=well, cwd=checkout, capture_output=True).returncode == 1
