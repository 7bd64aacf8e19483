"""How large the house is: `python -m tests.benchmarks.house [REV ...]`, commits beside the files as they are.

Read from the source alone, nothing is run. Without REV, `BEGUN`: where the house began to be rebuilt. The
table goes to `reports/house.md`, and the files that name each option to `reports/house_options.md`.

- code: lines of `studio/` with a statement on them, without blanks, comments and docstrings; imports apart,
- documented: share of the public modules, classes, functions and methods that say what they are,
- twice: runs of six lines of code or more that stand in two places, spaces aside,
- files an option: how many files of `studio/` take a field from a run's configuration (or set it there), with
  the file that has the field; and how many have its name for a word, whatever it stands for there: `language`
  is also of a clip, a page and a transcript.
"""

import ast
import io
import re
import statistics
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
REPORTS = Path(__file__).parent / "reports"
BEGUN = "a244a76"
SAME_LINES = 6
SCHEMAS = tuple(
    f"studio/{at}.py" for at in ("training/source_options", "training/config", "options/training")
)
"""Where the options of a run stood, and stand."""
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Sources = dict[str, str]
"""Path from the root → text."""


@dataclass(frozen=True)
class House:
    """What was counted."""

    files: int
    code: int
    imports: int
    documented: float
    twice: int
    naming: dict[str, list[str]]
    """Option → files that have its name for a word."""
    reading: dict[str, list[str]]
    """Option → files that take it from a run's configuration, or set it there, and the one that has it."""
    test_lines: int
    texts: int
    """Lines of the translations."""


def sources_of(revision: str | None) -> Sources:
    """Text of every Python file and translation: of a commit, or of the working tree."""
    if revision is None:
        paths = [*ROOT.glob("studio/**/*.py"), *ROOT.glob("tests/**/*.py"), *ROOT.glob("studio/**/*.json")]
        return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}
    archive = subprocess.run(
        ["git", "archive", revision, "studio", "tests"], cwd=ROOT, capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        files = {m.name: tar.extractfile(m) for m in tar if m.isfile() and m.name.endswith((".py", ".json"))}
        return {name: file.read().decode() for name, file in files.items() if file is not None}


def measured(sources: Sources) -> House:
    """The house that these files are."""
    studio = {name: text for name, text in sources.items() if re.fullmatch(r"studio/.*\.py", name)}
    trees = {name: ast.parse(text) for name, text in studio.items()}
    code = {name: sorted(code_lines(tree)) for name, tree in trees.items()}
    imports = {name: import_lines(tree) for name, tree in trees.items()}
    public = [_has_docstring(node) for tree in trees.values() for node in _public(tree)]
    fields = [name for path in SCHEMAS if path in trees for name in _options(trees[path])]
    taken = {name: taken_from_runs(tree) for name, tree in trees.items()}
    return House(
        files=len(studio),
        code=sum(len(set(code[name]) - imports[name]) for name in studio),
        imports=sum(len(lines) for lines in imports.values()),
        documented=sum(public) / len(public),
        twice=written_twice({name: _texts(studio[name], code[name], imports[name]) for name in studio}),
        naming={
            field: [n for n, text in studio.items() if re.search(rf"\b{field}\b", text)] for field in fields
        },
        reading={
            field: [name for name, tree in trees.items() if name in SCHEMAS or field in taken[name]]
            for field in fields
        },
        test_lines=sum(
            text.count("\n") for n, text in sources.items() if n.startswith("tests/") and n[-3:] == ".py"
        ),
        texts=sum(text.count("\n") for name, text in sources.items() if "/locales/" in name),
    )


def code_lines(tree: ast.Module) -> set[int]:
    """Numbers of the lines that a statement stands on; a string by itself is documentation."""
    spoken = {
        node
        for parent in ast.walk(tree)
        for node in _body(parent)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    silent = {line for node in spoken for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    spans = (
        (n.lineno, n.end_lineno or n.lineno) for n in ast.walk(tree) if isinstance(n, ast.expr | ast.stmt)
    )
    return {line for first, last in spans for line in (first, last)} - silent


def _body(node: ast.AST) -> list[ast.stmt]:
    body = getattr(node, "body", [])
    return body if isinstance(body, list) else []


def import_lines(tree: ast.Module) -> set[int]:
    """Numbers of the lines of import statements."""
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return {line for node in nodes for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def _texts(text: str, code: list[int], imports: set[int]) -> list[str]:
    lines = text.split("\n")
    return ["".join(lines[number - 1].split()) for number in code if number not in imports]


def written_twice(files: dict[str, list[str]]) -> int:
    """Places where `SAME_LINES` lines begin that stand elsewhere, too; where more are the same, one place."""
    runs = {
        (name, i): tuple(lines[i : i + SAME_LINES])
        for name, lines in files.items()
        for i in range(len(lines))
    }
    known = Counter(run for run in runs.values() if sum(map(len, run)) > 20 * SAME_LINES)
    twice = {place for place, run in runs.items() if known[run] > 1 and len(run) == SAME_LINES}
    return sum((name, i - 1) not in twice for name, i in twice)


def _public(node: Documented) -> Iterator[Documented]:
    yield node
    for child in node.body if isinstance(node, ast.Module | ast.ClassDef) else []:
        if isinstance(child, Documented) and not child.name.startswith("_"):
            yield from _public(child)


def _has_docstring(node: Documented) -> bool:
    return ast.get_docstring(node) is not None


def _options(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        made = node.value if isinstance(node, ast.AnnAssign) else None
        if isinstance(made, ast.Call) and ast.unparse(made.func).endswith("option"):
            yield ast.unparse(node.target)


def taken_from_runs(tree: ast.Module) -> set[str]:
    """Names behind something that is called a configuration, and those that one is made or changed with."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_config(node.value):
            found.add(node.attr)
        if isinstance(node, ast.Call) and (
            ast.unparse(node.func).endswith("TrainingConfig")
            or (ast.unparse(node.func).endswith("replace") and node.args and _is_config(node.args[0]))
        ):
            found |= {keyword.arg for keyword in node.keywords if keyword.arg}
    return found


def _is_config(node: ast.expr) -> bool:
    return re.search(r"(^|[._])config$", ast.unparse(node)) is not None


REASONS = {
    "whoever sizes, trains, lists, compares or continues a run asks for its model": ("base_model", "adapter"),
    "it chooses the object in `methods/`, which is asked then": ("method",),
    "another kind of run: its texts, labels, loss and figures differ": ("distill",),
    "steps and clips are counted with it: schedule, memory, speed, and a retry when memory ran out": (
        *("per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps"),
        *("num_processes", "max_steps"),
    ),
    "data are checked, confined to a visitor's folder, read, and named in the card": ("train_data",),
    "which clips can be used hangs on it: lists are checked, planned, read and warned of with it": (
        *("language", "max_audio_len"),
    ),
    "what rehearsal costs is planned, estimated, said of a gentler run, and made": ("replay_share",),
    "every draw (split, order, silence, rehearsal) begins with it": ("seed",),
    "run, model, log and Slurm job are called so": ("run_name",),
    "launcher, processes, checks and memory have to agree on it": ("sharding",),
    "training, memory plan, checks and what is said of a run ask for it": (
        *("precision", "quantization", "lora_r", "loss_chunk_size", "label_smoothing_factor"),
        "gradient_checkpointing",
    ),
}
"""Why an option is read in more than four files → which are."""


def table(houses: dict[str, House]) -> str:
    """One row a thing that was counted, one column a commit."""
    rows = {
        "files of `studio/`": lambda h: f"{h.files}",
        "lines of code, without imports": lambda h: f"{h.code:,}",
        "lines of imports": lambda h: f"{h.imports:,}",
        "public names that say what they are": lambda h: f"{100 * h.documented:.1f} %",
        f"places of {SAME_LINES} lines and more that stand elsewhere, too": lambda h: f"{h.twice}",
        "options of a run": lambda h: f"{len(h.naming)}",
        "files that read an option of a run: median, most": lambda h: "{:g}, {}".format(*_spread(h.reading)),
        "files that have its name for a word: median, most": lambda h: "{:g}, {}".format(*_spread(h.naming)),
        "lines of `tests/`": lambda h: f"{h.test_lines:,}",
        "lines of translations": lambda h: f"{h.texts:,}",
    }
    head = "| | " + " | ".join(houses) + " |\n|---|" + "---|" * len(houses) + "\n"
    body = (f"| {what} | " + " | ".join(map(told, houses.values())) + " |\n" for what, told in rows.items())
    return head + "".join(body)


def _spread(files_of: dict[str, list[str]]) -> tuple[float, int]:
    counts = [len(files) for files in files_of.values()]
    return statistics.median(counts), max(counts)


def options_table(house: House) -> str:
    """One row an option, those that most files read first; why they do where these are more than four."""
    why = {name: reason for reason, names in REASONS.items() for name in names}
    rows = []
    for name, files in sorted(house.reading.items(), key=lambda each: (-len(each[1]), each[0])):
        assert len(files) <= 4 or name in why, f"{name} is read in {len(files)} files, and REASONS has no why"
        reason = why.get(name, "") if len(files) > 4 else ""
        where = ", ".join(file.removeprefix("studio/") for file in sorted(files))
        rows.append(f"| `{name}` | {len(files)} | {len(house.naming[name])} | {where} | {reason} |\n")
    return (
        "| option | read in | a word of | files that read it | why so many |\n|---|---|---|---|---|\n"
        + "".join(rows)
    )


def main() -> None:
    """Writes and prints both reports."""
    revisions = sys.argv[1:] or [BEGUN]
    houses = {**{f"`{r}`": measured(sources_of(r)) for r in revisions}, "now": measured(sources_of(None))}
    made = "Made by `python -m tests.benchmarks.house`: its first lines say what is counted.\n\n"
    sizes = f"# How large the house is\n\n{made}{table(houses)}"
    (REPORTS / "house.md").write_text(sizes, "utf-8")
    (REPORTS / "house_options.md").write_text(
        f"# Which files read an option of a run\n\n{made}{options_table(houses['now'])}", "utf-8"
    )
    print(sizes)


if __name__ == "__main__":
    main()
