"""The container's file, step by step without Docker: what it copies, starts and asks is there and works."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import httpx
import yaml

from studio.settings import environment_variables
from tests.studio_process import ROOT, StudioProcess

STEPS = re.findall(
    r"^([A-Z]+) (.+)$", (ROOT / "assets" / "docker" / "Dockerfile").read_text("utf-8"), re.MULTILINE
)
COMPOSE = yaml.safe_load((ROOT / "assets" / "docker" / "compose.yaml").read_text("utf-8"))


def said(step: str) -> list[str]:
    return [words for name, words in STEPS if name == step]


def variables() -> dict[str, str]:
    """The environment that the container's file sets."""
    return dict(pair.split("=", 1) for words in said("ENV") for pair in words.split())


def composed(given: Mapping[str, str]) -> dict[str, str]:
    """The environment that compose adds, as it reads `${NAME:-usual}` and `${NAME:?what is missing}`."""
    told = COMPOSE["services"]["studio"]["environment"]
    usual = {name: re.fullmatch(r"\$\{(\w+):[-?](.*)\}", text) for name, text in told.items()}
    assert all(found is not None and found[1] == name for name, found in usual.items())
    return {name: given.get(name) or str(found and found[2]) for name, found in usual.items()}


def test_the_container_and_compose_set_what_the_studio_reads() -> None:
    libraries_own = {"PIP_NO_CACHE_DIR", "PYTHONUNBUFFERED"}
    assert (variables().keys() | composed({}).keys()) - libraries_own <= set(environment_variables())
    (studio,) = COMPOSE["services"].values()
    assert studio["build"]["args"].keys() == {words.partition("=")[0] for words in said("ARG")}


def test_compose_builds_this_file_and_keeps_all_in_one_volume() -> None:
    folder = ROOT / "assets" / "docker"
    told = COMPOSE
    (studio,) = told["services"].values()
    build = studio["build"]
    assert (folder / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).samefile(folder / "Dockerfile")
    (volume,) = told["volumes"]
    assert studio["volumes"] == [f"{volume}:{said('VOLUME')[0]}"]
    kept = [variables()[name] for name in ("STUDIO_HOME", "HF_HUB_CACHE")]
    assert all(Path(place).is_relative_to(said("VOLUME")[0]) for place in kept)
    inside = [port.rpartition(":")[2] for port in studio["ports"]]
    assert inside == said("EXPOSE") == [variables()["GRADIO_SERVER_PORT"]]
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
    assert variables()["GRADIO_SERVER_NAME"] == "0.0.0.0" and said("USER") == ["studio"]
    command = json.loads(said("CMD")[-1])
    assert command == ["python", "app.py"] and said("HEALTHCHECK")

    home = tmp_path / "data"
    secrets = {"STUDIO_AUTH": "me:a-long-password", "STUDIO_API_KEY": "key-of-programs"}
    given = {**environ, **variables(), **composed(secrets), "HF_HUB_CACHE": str(home / "hub")}
    command = ["env", f"GRADIO_SERVER_NAME={variables()['GRADIO_SERVER_NAME']}", sys.executable, command[1]]
    with StudioProcess(home, given, command=command, checkout=checkout) as studio:
        asked = json.loads(said("HEALTHCHECK")[0].partition("CMD ")[2])
        well = {**given, "GRADIO_SERVER_PORT": str(studio.port)}
        assert subprocess.run(asked, env=well, cwd=checkout).returncode == 0
        with httpx.Client(base_url=studio.url, timeout=60) as http:
            assert http.get("/config").status_code == 401
            assert http.get("/config", auth=("me", "a-long-password")).status_code == 200
            assert http.get("/v1/models").status_code == 401
            programs = http.get("/v1/models", headers={"Authorization": "Bearer key-of-programs"})
        assert "demo" in [row["id"] for row in programs.json()["data"]]
    assert subprocess.run(asked, env=well, cwd=checkout, capture_output=True).returncode == 1
