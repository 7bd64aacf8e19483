"""`add-data`: takes a zip, or recordings and their list, as a folder of the studio to train with."""

from collections.abc import Sequence
from pathlib import Path

from studio.cli.output import ProgressLine, give, table
from studio.cli.parsing import Parser
from studio.dataset.added import SCHEMA_VERSION, Added, add_data, data_sets
from studio.settings import Settings
from studio.units import counted, format_bytes


def parser() -> Parser:
    """The files; without any, those that were added are listed."""
    made = Parser(
        "add-data",
        "Unpack a zip, or copy recordings and their list, into STUDIO_HOME/datasets, as the Train tab does. "
        "Exit code 1: it cannot be trained with as it is.",
    )
    made.add_argument(
        "files", nargs="*", metavar="FILE", help="Zips, recordings, lists; without any, lists what there is."
    )
    made.option("name", "Name of the folder; unless given, that of the zip or the list.", default="")
    made.flag("json", "Print JSON.")
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Adds the files; 1 if nothing of them can be read as training data."""
    given = parser().read(arguments)
    if not given.files:
        _show_all(settings, given.json)
        return 0
    with ProgressLine() as line:
        added = add_data(
            [Path(file) for file in given.files],
            settings,
            given.name,
            on_progress=lambda done, total: line.update(
                f"{format_bytes(done)} of {format_bytes(total)} are unpacked"
            ),
        )
    assert added is not None, "nobody stops it"
    give(given.json, added.to_json(), lambda: _summary(added))
    return 1 if added.problem else 0


def _summary(added: Added) -> str:
    lines = [f"{added.folder}: {counted(added.files, 'file')}, {format_bytes(added.size_bytes)}"]
    if added.left_out:
        lines.append(f"Hidden files left out: {added.left_out}.")
    if added.unusable_rows:
        lines.append(f"Rows that cannot be used: {added.unusable_rows:,}; check-data names them.")
    lines.append(f"It is kept, but: {added.problem}" if added.problem else "")
    return "\n".join([*filter(None, lines), f"train with: --train_data {added.source}"])


def _show_all(settings: Settings, as_json: bool) -> None:
    found = data_sets(settings.datasets)
    rows = [{"name": name, "train_data": str(source)} for name, source in found.items()]
    told = {"schema_version": SCHEMA_VERSION, "data_sets": rows}
    give(as_json, told, lambda: table(["NAME", "TRAIN DATA"], [[*row.values()] for row in rows]))
