"""The shape of the house: imports point one way, heavy libraries load late, one reader of the
environment. Everything is read from the source, so that the test needs no list to be kept up."""

import ast
import importlib.metadata
import json
import re
import string
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from studio import errors
from tests.studio_process import ROOT

LAYERS: tuple[tuple[str, ...], ...] = (
    ("messages",),
    ("errors",),
    ("translation",),
    ("units", "lazy_imports", "process_exit", "patience", "chinese", "watching"),
    ("files",),
    ("settings",),
    ("room",),
    ("whisper",),
    ("methods",),
    ("options",),
    ("dataset", "registry"),
    ("memory", "transcription"),
    ("evaluation", "publishing", "doctor"),
    ("training",),
    ("runs",),
    ("reports",),
    ("services",),
    ("actions",),
    ("serving",),
    ("ui",),
    ("cli",),
    ("__main__",),
)
HEAVY = {
    *("torch", "transformers", "peft", "datasets", "plotly", "faster_whisper", "ctranslate2"),
    *("av", "soundfile", "scipy", "pandas", "bitsandbytes", "accelerate", "sklearn"),
}
MAY_BE_HEAVY = {
    *(f"studio.training.{name}" for name in ("attempt", "worker", "trainer", "guarded_trainer", "callback")),
    *(f"studio.training.{name}" for name in ("adapters", "run_plan", "trainer_arguments")),
    *(f"studio.training.data.{name}" for name in ("collator", "preparation", "replay")),
    *(f"studio.training.distributed.{name}" for name in ("start", "world")),
    *(f"studio.training.short_audio.{name}" for name in ("audio_context", "trainer", "distillation")),
    *(f"studio.training.short_audio.{name}" for name in ("teacher_states", "encoder_states")),
    *(f"studio.memory.trace.{name}" for name in ("tracker", "cuda", "quantized", "model", "step")),
    "studio.training.probe.clips",
    "studio.transcription.engines",
    "studio.whisper.loss",
}
READS_ENVIRONMENT = {"studio/settings.py", "studio/runs/process.py"}
VAGUE_NAMES = {"utils.py", "helpers.py", "common.py", "misc.py"}

SOURCES = sorted([*(ROOT / "studio").rglob("*.py"), *ROOT.glob("app.py")])
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def place(path: Path, node: ast.AST | None = None) -> str:
    line = getattr(node, "lineno", None)
    return path.relative_to(ROOT).as_posix() + (f":{line}" if line else "")


@cache
def nodes() -> list[tuple[Path, ast.AST]]:
    return [(path, node) for path in SOURCES for node in ast.walk(tree_of(path))]


def imported_names(node: ast.AST) -> list[str]:
    """Full names that an import statement may bring in: `from studio import units` means `studio.units`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"relative import: {ast.unparse(node)}"
        if node.module == "studio":
            return [f"studio.{alias.name}" for alias in node.names]
        return [node.module or ""]
    return []


@cache
def imports() -> list[tuple[Path, ast.AST, str]]:
    return [(path, node, name) for path, node in nodes() for name in imported_names(node)]


def layer_of(part: str) -> int:
    return next((index for index, layer in enumerate(LAYERS) if part in layer), -1)


def part_of(path: Path) -> str:
    """`studio/memory/plan.py` → `memory`, `studio/units.py` → `units`."""
    return path.relative_to(ROOT / "studio").parts[0].removesuffix(".py")


def test_every_part_of_the_package_has_its_layer() -> None:
    parts = {part_of(path) for path in SOURCES if path.is_relative_to(ROOT / "studio")} - {"__init__"}
    assert {part for part in parts if layer_of(part) < 0} == set()


def test_imports_point_one_way() -> None:
    wrong = []
    for path, node, name in imports():
        if not path.is_relative_to(ROOT / "studio"):
            continue
        if not name.startswith("studio.") or name == "studio.__version__":
            continue
        here, there = part_of(path), name.split(".")[1]
        if there != here and layer_of(there) >= layer_of(here):
            wrong.append(f"{place(path, node)} imports {name}")
    assert not wrong, "\n" + "\n".join(wrong)


def test_tabs_never_import_one_another() -> None:
    """What two of them need is in `ui/shared`, which imports neither."""
    page = ROOT / "studio" / "ui"
    rooms = {path.parent.name for path in SOURCES if path.parent.parent == page}
    wrong = [
        f"{place(path, node)} imports {name}"
        for path, node, name in imports()
        if path.parent.parent == page
        and (other := re.match(r"studio\.ui\.(\w+)\.", name))
        and other[1] in rooms - {path.parent.name} - ({"shared"} if path.parent.name != "shared" else set())
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_the_command_line_knows_nothing_of_the_page() -> None:
    """But for the command that opens it."""
    wrong = [
        f"{place(path, node)} imports {name}"
        for path, node, name in imports()
        if name.startswith("studio.ui")
        and path.is_relative_to(ROOT / "studio" / "cli")
        and path.name != "app.py"
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_gradio_is_imported_only_by_the_page() -> None:
    wrong = [
        place(path, node)
        for path, node, name in imports()
        if name.split(".")[0] in ("gradio", "gradio_client")
        and not path.is_relative_to(ROOT / "studio" / "ui")
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_importing_any_part_of_the_studio_and_building_the_page_loads_no_heavy_library(
    tmp_path: Path,
) -> None:
    modules = [
        place(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path in SOURCES
        if path.is_relative_to(ROOT / "studio") and path.name != "__main__.py"
    ]
    light = [name for name in modules if name not in MAY_BE_HEAVY]
    script = """
import ast, importlib, json, sys
from pathlib import Path
names, heavy, home = json.loads(sys.argv[1])
loaded, known = {}, set()
def look(name):
    new = {module.partition(".")[0] for module in set(sys.modules) - known} & set(heavy)
    known.update(sys.modules)
    if new:
        loaded[name] = sorted(new)
for name in sorted(names, key=lambda name: name.startswith("studio.ui")):
    if name.startswith("studio.ui") and "gradio" not in sys.modules:
        plain, ast.get_source_segment = ast.get_source_segment, None  # it takes none of its components apart
        importlib.import_module("studio.ui")  # what Gradio itself loads is not ours to answer for
        ast.get_source_segment = plain
        known.update(sys.modules)
    importlib.import_module(name)
    look(name)
from studio.services import Services
from studio.settings import Settings
from studio.ui.build import build_app, launch_options
from studio.serving.gate import Names
from studio.serving.uploads import Uploads
from studio.serving.waiting import AT_ONCE, Line
services = Services.open(Settings(home=Path(home), hf_cache=Path(home, "hf")))
line = Line(AT_ONCE)
build_app(services, line)
launch_options(services, Names(services.settings, "127.0.0.1"), Uploads(services.settings), line)
look("the page")
print(json.dumps(loaded))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps([light, sorted(HEAVY), str(tmp_path)])],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {}


def test_only_the_settings_read_the_environment() -> None:
    wrong = [
        place(path, node)
        for path, node in nodes()
        if (isinstance(node, ast.Attribute) and node.attr in ("environ", "environb", "getenv", "putenv"))
        or (isinstance(node, ast.ImportFrom) and node.module == "os" and "env" in ast.unparse(node))
        if place(path) not in READS_ENVIRONMENT
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_nothing_runs_a_shell_unpickles_or_trusts_remote_code() -> None:
    wrong = []
    for path, node in nodes():
        if {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve"} & set(imported_names(node)):
            wrong.append(f"{place(path, node)} {ast.unparse(node)}")
        if isinstance(node, ast.Call):
            call = ast.unparse(node.func)
            options = {k.arg: ast.unparse(k.value) for k in node.keywords}
            if options.get("shell", "False") != "False" or call in ("os.system", "os.popen", "eval", "exec"):
                wrong.append(f"{place(path, node)} runs a shell or code")
            if call == "torch.load" and options.get("weights_only") != "True":
                wrong.append(f"{place(path, node)} loads a pickle")
            if options.get("trust_remote_code", "False") != "False":
                wrong.append(f"{place(path, node)} trusts remote code")
    assert not wrong, "\n" + "\n".join(wrong)


def test_every_module_and_everything_public_says_what_it_is() -> None:
    wrong = [place(path) for path in SOURCES if not ast.get_docstring(tree_of(path))]
    for path in SOURCES:
        for node in public_definitions(tree_of(path)):
            if not ast.get_docstring(node):
                wrong.append(f"{place(path, node)} {node.name}")
    assert not wrong, "\n" + "\n".join(wrong)


def public_definitions(parent: ast.Module | ast.ClassDef) -> Iterator[Function | ast.ClassDef]:
    """Classes, functions and methods whose names do not begin with an underscore."""
    for node in parent.body:
        if isinstance(node, (Function, ast.ClassDef)) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node)


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [place(path) for path in SOURCES if path.name in VAGUE_NAMES] == []


def test_every_error_is_a_template_with_all_its_values() -> None:
    """The English template is the key of its translation: an f-string would be a new key each time."""
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type) and name.endswith("Error")}
    wrong = []
    for path, node in nodes():
        if not isinstance(node, ast.Call) or ast.unparse(node.func).split(".")[-1] not in kinds:
            continue
        template = node.args[0] if node.args else None
        if isinstance(template, ast.JoinedStr):
            wrong.append(f"{place(path, node)} has an f-string")
        if not (isinstance(template, ast.Constant) and isinstance(template.value, str)):
            continue
        named = {
            re.split(r"[.\[]", field)[0]
            for _, field, _, _ in string.Formatter().parse(template.value)
            if field
        }
        given = {keyword.arg for keyword in node.keywords}
        if None not in given and not named <= given:
            wrong.append(f"{place(path, node)} lacks {sorted(named - given)}")
    assert not wrong, "\n" + "\n".join(wrong)


def test_no_value_of_a_sentence_is_english_that_nobody_translates() -> None:
    """Words within a value are a `Message`; what an error says is asked of `in_brief`, which keeps one."""
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type) and name.endswith("Error")}
    kinds.add("Message")

    def is_sentence(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in kinds

    def english_in(node: ast.AST) -> Iterator[ast.AST]:
        if is_sentence(node):  # looked at by itself
            return
        fixed = node.values if isinstance(node, ast.JoinedStr) else [node]
        words = [part.value for part in fixed if isinstance(part, ast.Constant)]
        pattern = "[A-Za-z]{2}" if isinstance(node, ast.JoinedStr) else "[a-z] [a-z]"
        is_flat = isinstance(node, ast.Call) and ast.unparse(node) == "str(error)"
        if is_flat or any(isinstance(word, str) and re.search(pattern, word) for word in words):
            yield node
        else:
            for child in ast.iter_child_nodes(node):
                yield from english_in(child)

    wrong = [
        f"{place(path, part)} {ast.unparse(part)}"
        for path, node in nodes()
        if is_sentence(node) and not path.is_relative_to(ROOT / "studio" / "cli")
        for keyword in node.keywords
        for part in english_in(keyword.value)
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def requirement_lines(name: str) -> list[str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.strip() and not line.startswith(("#", "-r"))]


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_requirement_is_pinned_exactly() -> None:
    names = ("requirements.txt", "tests/requirements.txt", "tests/requirements-no-deps.txt")
    lines = [line for name in names for line in requirement_lines(name)]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9_.\-]+==[0-9][\w.]*", line)] == []


def test_every_library_that_is_imported_is_required_by_name() -> None:
    required = {normalized(line.split("==")[0]) for line in requirement_lines("requirements.txt")}
    owners = importlib.metadata.packages_distributions()
    imported = {name.split(".")[0] for _, _, name in imports()}
    brought_by_a_space = {"spaces", "authlib"}
    foreign = imported - set(sys.stdlib_module_names) - {"studio", "app"} - brought_by_a_space
    missing = {
        name for name in foreign if not {normalized(owner) for owner in owners.get(name, [name])} & required
    }
    assert missing == set()
