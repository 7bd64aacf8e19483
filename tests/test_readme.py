"""The README tells the truth: links, versions, commands, settings, and that its first command works."""

import ast
import csv
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import distribution
from pathlib import Path

import nbformat
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from studio.cli.main import COMMANDS, command
from studio.cli.parsing import snake_case
from studio.options.arguments import training_flags
from studio.settings import environment_variables
from studio.units import GIB
from tests.studio_process import ROOT, copy_checkout, free_port, wait_for_page

README = (ROOT / "README.md").read_text(encoding="utf-8")
MEASURED = ROOT / "tests" / "benchmarks" / "reports" / "README.md"
PAGES = ("*.md", "assets/*.md", "studio/**/*.md")
DOCUMENTS = [*(path for pattern in PAGES for path in ROOT.glob(pattern)), MEASURED]
UNTRANSLATED = {
    "code": r"`+([^`]+)`+",
    "figures": r"\d+(?:\.\d+)*",
    "links": r"\]\((?!README)([^)]+)\)",
    "headings": r"^#+",
    "rows": r"^\|",
}
FORWARDED = {"train", "estimate", "explain-oom", "probe"}
"""Commands that hand the options of `TrainingConfig` on to its own parser."""
INSTALLED_BYTES = 4 * GIB
"""What the first command installs takes 3 GB."""


def blocks(text: str) -> list[str]:
    """The fenced shell blocks, in their order."""
    return [block.strip() for block in re.findall(r"```bash\n(.*?)```", text, flags=re.DOTALL)]


def front_matter() -> dict[str, object]:
    return dict(yaml.safe_load(README.split("---")[1]))


def pinned(name: str) -> str:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return next(line.split("==")[1] for line in lines if line.startswith(f"{name}=="))


def studio_commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each `python -m studio NAME …` of a document: the command's name and its options."""
    for line in re.findall(r"python -m studio ([a-z][^`\n]*)", text):
        words = line.split()
        yield words[0], [word for word in words if word.startswith("--")]


def heading_anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def untranslated(text: str) -> list[dict[str, list[str]]]:
    """By section, what no translation changes."""
    return [
        {what: sorted(re.findall(regex, section, re.MULTILINE)) for what, regex in UNTRANSLATED.items()}
        for section in re.split(r"^(?=#)", text[text.index("# Whisper Studio") :], flags=re.MULTILINE)
    ]


def test_the_chinese_readme_says_what_the_english_one_says() -> None:
    chinese = (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")
    assert "](README.zh-CN.md)" in README.split("```")[0]
    assert "](README.md)" in chinese.split("```")[0]
    assert untranslated(chinese) == untranslated(README)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_and_picture_is_there(document: Path) -> None:
    missing = []
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", text):
        link = target[0] or target[1]
        if re.match(r"[a-z]+:", link):
            assert link.startswith("https://"), link
            continue
        name, _, anchor = link.partition("#")
        path = document.parent / name if name else document
        if not path.exists() or (anchor and anchor not in heading_anchors(path)):
            missing.append(link)
    assert missing == []


def test_the_space_gets_the_versions_that_are_pinned() -> None:
    assert front_matter()["sdk_version"] == pinned("gradio")
    assert front_matter()["sdk"] == "gradio"
    assert (ROOT / str(front_matter()["app_file"])).is_file()
    assert front_matter()["python_version"] == "3.12"


def test_the_space_is_described_within_the_limits_of_the_hub() -> None:
    assert len(str(front_matter()["short_description"])) <= 60
    assert front_matter()["hf_oauth"] is True and "hf_oauth_scopes" not in front_matter(), (
        "the name is enough"
    )
    assert (ROOT / str(front_matter()["thumbnail"])).is_file()
    assert front_matter()["tags"] and front_matter()["suggested_hardware"] in ("cpu-basic", "t4-small")
    colors = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
    assert {front_matter()["colorFrom"], front_matter()["colorTo"]} <= colors


def test_it_opens_with_two_commands_of_one_line_each() -> None:
    assert len(blocks(README)[0].splitlines()) == len(blocks(README)[1].splitlines()) == 1
    assert "python app.py" in blocks(README)[0]
    assert blocks(README)[1] == "python3 tests/run.py"


def test_continuous_integration_calls_exactly_the_second_command() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").strip().splitlines()
    assert lines[-1] == f"exec {blocks(README)[1]}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_command_and_option_named_exists(document: Path) -> None:
    for name, options in studio_commands(document.read_text(encoding="utf-8")):
        assert name in (*COMMANDS, "COMMAND"), name
        if name in COMMANDS:
            known = set(command(name).parser().spellings()) | {"--help"}
            known |= {f"--{flag}" for flag in training_flags()} if name in FORWARDED else set()
            assert {snake_case(option.partition("=")[0]) for option in options} <= known


def test_the_notebook_is_clean_and_every_command_and_option_in_it_exists() -> None:
    """It runs from end to end in `tests/benchmarks/slow/notebook.py`."""
    notebook = nbformat.read(ROOT / "assets" / "whisper_studio.ipynb", as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs for cell in cells)
    trees = [ast.parse(cell.source) for cell in cells]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    said = [[word.value for word in ast.walk(call) if isinstance(word, ast.Constant)] for call in calls]
    commands = [words for call, words in zip(calls, said, strict=True) if ast.unparse(call.func) == "studio"]
    assert {words[0] for words in commands} == {"train", "transcribe", "evaluate", "export"}
    text = "\n".join(cell.source for cell in cells)
    known = {flag for words in commands for flag in command(words[0]).parser().spellings()}
    known |= {f"--{flag}" for flag in training_flags()}
    assert set(re.findall(r"(?<=\")--\w+", text)) - {"--quiet"} <= known


def test_a_notebook_without_a_checkout_around_it_says_what_project_has_to_be(tmp_path: Path) -> None:
    """As Colab and Kaggle open it; the packages of the tests, with the studio, are left out."""
    notebook = nbformat.read(ROOT / "assets" / "whisper_studio.ipynb", as_version=4)
    first, second, *_ = (cell.source for cell in notebook.cells if cell.cell_type == "code")
    (tmp_path / "content").mkdir()
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"{first}\n{second}"],
        cwd=tmp_path / "content",
        capture_output=True,
        encoding="utf-8",
    )
    (told,) = done.stderr.splitlines()
    assert done.returncode == 1 and f"no studio in {tmp_path}: set PROJECT" in told and "git+https://" in told


def test_every_command_is_in_the_table() -> None:
    rows = re.findall(r"^\| `python -m studio ([a-z-]+)", README, flags=re.MULTILINE)
    assert sorted(rows) == sorted(COMMANDS)


def test_the_settings_table_has_a_row_for_each_variable_that_is_read() -> None:
    section = README.split("## Settings")[1].split("## ")[0]
    assert re.findall(r"^\| `([A-Z_]+)`", section, flags=re.MULTILINE) == environment_variables()


@pytest.mark.skipif(sys.platform == "win32", reason="the command is for a POSIX shell")
@pytest.mark.timeout(1500)
def test_the_first_command_opens_the_page_from_a_clean_clone(tmp_path: Path, environ: dict[str, str]) -> None:
    if shutil.disk_usage(tmp_path).free < INSTALLED_BYTES:
        pytest.skip("the disk has no room for a second installation")
    clone = tmp_path / "clone"
    copy_checkout(clone)
    if tmp_path.stat().st_dev == Path(sys.prefix).stat().st_dev:
        lend_packages(clone / ".venv")
    port = free_port()
    python = f"{sys.base_prefix}/bin"
    installed = {
        **{name: value for name, value in environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")},
        "PATH": f"{python}:{environ['PATH']}",
        "GRADIO_SERVER_PORT": str(port),
        "STUDIO_HOME": str(tmp_path / "home"),
        "PIP_NO_COMPILE": "no",  # which pip reads as the value of `compile`: what is imported is compiled
    }
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            ["sh", "-c", blocks(README)[0]],
            cwd=clone,
            env=installed,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_for_page(f"http://127.0.0.1:{port}", process, timeout_seconds=1400)
    except AssertionError as error:
        pytest.fail(f"{error}\n{(tmp_path / 'log').read_text(encoding='utf-8', errors='replace')[-4000:]}")
    finally:
        end_group(process)
        shutil.rmtree(clone)


def lend_packages(environment: Path) -> None:
    """Links what the first command would install and the tests' own environment has, and none of what only
    the tests need. There, pip has resolved and unpacked the same list; here, it looks whether that is what
    the list asks for, and installs what is not."""
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    wanted = [(Requirement(line), "") for line in lines]
    known = {("setuptools", "")}  # each environment has its own
    for wish, asked_with in wanted:
        name = canonicalize_name(wish.name)
        is_asked = not wish.marker or wish.marker.evaluate({"extra": asked_with})
        for extra in {*wish.extras, ""} if is_asked else ():
            if (name, extra) not in known:
                known.add((name, extra))
                wanted += [(Requirement(line), extra) for line in distribution(name).requires or ()]
    here = Path(sysconfig.get_path("purelib"))
    there = environment / here.relative_to(sys.prefix)
    for name in {name for name, _ in known} - {"setuptools"}:
        listed = csv.reader((distribution(name).read_text("RECORD") or "").splitlines())
        files = {row[0] for row in listed if not row[0].startswith("..")}
        for folder in {file.rpartition("/")[0] for file in files}:
            (there / folder).mkdir(parents=True, exist_ok=True)
        for file in files:
            with suppress(FileNotFoundError):  # what was compiled is not always kept
                os.link(f"{here}/{file}", f"{there}/{file}")


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends the shell and what it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
