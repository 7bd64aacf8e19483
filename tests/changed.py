"""What can a change break? `python -m tests.changed [REV]` names the test files, and why each; it runs none.

REV is what to compare with: without it HEAD or, if nothing differs from HEAD, where this branch left the main
one.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.stories import ALWAYS, DOCUMENTS, story_of

ROOT = Path(__file__).resolve().parent.parent
WHOLE = "tests"
OWN = ("tests/run.py", "tests/changed.py", "tests/stories.py")
"""What `tests/test_house.py` tries, which runs always."""


def chosen(changed: list[str]) -> dict[str, str]:
    """Test file → why, for paths from the root; the whole suite is the one entry `tests`."""
    found = dict.fromkeys(ALWAYS, "always")
    for name in changed:
        for path, why in broken_by(name):
            found.setdefault(path, f"{why} {name}")
    return {WHOLE: found[WHOLE]} if WHOLE in found else found


def broken_by(name: str) -> Iterator[tuple[str, str]]:
    """The tests of one changed file, from the nearest to the farthest."""
    path, story = Path(name), story_of(name)
    if path.suffix == ".md" and len(path.parts) < 3:
        yield from ((test, "is about") for test in DOCUMENTS)
    elif not story and (path.parts[0] != "tests" or (len(path.parts) == 2 and path.name[:5] != "test_")):
        yield from [] if name in OWN else [(WHOLE, "everything may lean on")]
    elif path.suffix == ".py":
        yield from ((test, "has the name of") for test in _mirrors(name))
        yield from ((test, "is" if test == name else "imports") for test in tests() if name in _reach(test))
        near = _leaning_in_its_room(name)
        for test in tests(f"unit/{path.parts[1]}"):
            yield from ((test, f"imports {module}, which leans on") for module in near & _reach(test))
        for module in (module for module in _sources() if name in _imports(module)):
            yield from ((test, f"has the name of {module}, which imports") for test in _mirrors(module))
    else:
        yield from ((test, "stands beside the folder of") for test in tests(f"unit/{path.parts[1]}"))
        reading = {file for test in tests() for file in _reach(test) if path.name in _text(file)}
        yield from ((test, "reads") for test in tests() if reading & _reach(test))
    yield from ((test, "tells the story of") for test in story)


@cache
def tests(folder: str = "") -> list[str]:
    """All test files below a folder of `tests/`."""
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / WHOLE / folder).rglob("test_*.py"))


@cache
def _sources() -> list[str]:
    return ["app.py", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "studio").rglob("*.py"))]


@cache
def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _mirrors(module: str) -> list[str]:
    """`studio/memory/trace/step.py` → `tests/unit/memory/test_trace.py`: in its room, named like it."""
    room, *names = Path(module).with_suffix("").parts[1:] or ("app",)
    return [test for test in tests(f"unit/{room}") if any(_are_alike(test, name) for name in names)]


def _are_alike(test: str, name: str) -> bool:
    mine = Path(test).stem.removeprefix("test_")
    return f"{mine}_".startswith(f"{name}_") or f"{name}_".startswith(f"{mine}_")


def _leaning_in_its_room(name: str) -> set[str]:
    """The modules of a module's room that import it, themselves or through one another."""
    room = [module for module in _sources() if module.split("/")[:2] == name.split("/")[:2]]
    found = {name}
    while new := {module for module in room if _imports(module) & found} - found:
        found |= new
    return found - {name}


@cache
def _reach(test: str) -> frozenset[str]:
    """What a test imports, itself or through what tests share; but not through the `conftest.py` of all."""
    found: set[str] = set()
    ahead = [test, f"{Path(test).parent.as_posix()}/conftest.py"]
    while ahead:
        name = ahead.pop()
        if name not in found and (ROOT / name).is_file() and name != "tests/conftest.py":
            found.add(name)
            ahead += _imports(name) if name.startswith("tests/") else ()
    return frozenset(found)


@cache
def _imports(name: str) -> frozenset[str]:
    """Files of this repository that a file imports, anywhere in it."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(_text(name))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    paths = {f"{module.replace('.', '/')}.py" for module in modules}
    return frozenset(path for path in paths if (ROOT / path).is_file())


def differing(revision: str) -> list[str]:
    """Paths that differ from a revision, and those that git does not know yet."""
    if not revision:
        revision = "HEAD" if git("status", "--porcelain") else left_the_main_branch()
    print(f"Compared with {revision}:", file=sys.stderr)
    names = git("diff", "--name-only", "--no-renames", "-z", revision)
    names += git("ls-files", "--others", "--exclude-standard", "-z")
    return sorted(filter(None, names.split("\0")))


def left_the_main_branch() -> str:
    """The commit from which on this branch is its own; on the main branch itself the last but one."""
    for branch in ("origin/HEAD", "origin/main", "main"):
        base = git("merge-base", "HEAD", branch, may_fail=True)
        if base and base != git("rev-parse", "HEAD"):
            return base
    return "HEAD~1"


def git(*words: str, may_fail: bool = False) -> str:
    """What git prints."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, encoding="utf-8")
    if done.returncode and not may_fail:
        sys.exit(done.stderr)
    return done.stdout.strip("\n")


def main() -> None:
    """The files go to standard output, why and how many to standard error."""
    found = chosen(differing("".join(sys.argv[1:])))
    counts = {path: sum(map(_count, tests() if path == WHOLE else [path])) for path in found}
    for path, why in found.items():
        print(f"  {path} ({counts[path]}): {why}", file=sys.stderr)
    print(f"{sum(counts.values())} test functions", file=sys.stderr)
    print("\n".join(found))


def _count(test: str) -> int:
    return sum(line.startswith(("def test_", "async def test_")) for line in _text(test).splitlines())


if __name__ == "__main__":
    main()
