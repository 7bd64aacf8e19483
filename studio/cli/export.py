"""`export`: a model for faster-whisper, or an adapter merged into its base, each with a proof."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from studio.cli.models import as_dict
from studio.cli.output import ProgressLine, give, require_place, say
from studio.cli.parsing import Parser
from studio.errors import ConfigError
from studio.files import storage_errors
from studio.publishing.findings import loss_of
from studio.publishing.formats import FORMATS, USUAL_FORMAT, form_of
from studio.registry.spec import ModelSpec
from studio.services import Services
from studio.settings import Settings
from studio.units import counted, format_bytes

SCHEMA_VERSION = 1
_MERGED = "merged"
"""What `--lora_model` means."""


def parser() -> Parser:
    """`export MODEL`, with the format and how weights are kept."""
    made = Parser(
        "export",
        "Export a model for faster-whisper or whisper.cpp (ggml), or merge an adapter into its base.",
    )
    made.add_argument("model", nargs="?", default="", metavar="MODEL", help="Registry id, folder or Hub id.")
    made.option("lora_model", "An adapter to merge: the same as MODEL --format merged.", default="")
    made.option(
        "format", f"{', '.join(FORMATS)} (unless given: {USUAL_FORMAT}, for faster-whisper).", known=FORMATS
    )
    made.option("quantization", "auto, float32, float16, bfloat16, int8 …", default="auto")
    made.option("name", "Name of the new model (default: made of the model's own).", default="")
    made.option("output_dir", "Folder to copy the new model into, too.", kind=Path)
    made.flag("local_files_only", "Never download the model.")
    made.flag("json", "Print JSON.")
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Makes one export."""
    given = parser().read(arguments)
    if given.model and given.lora_model:
        raise ConfigError("export takes one model: name it, or give --lora_model.")
    if given.lora_model and given.format not in (None, _MERGED):
        raise ConfigError(
            "--lora_model merges an adapter: leave out --format {form}, or export {model} --format {form}.",
            form=given.format,
            model=given.lora_model,
        )
    model = given.model or given.lora_model
    form = _MERGED if given.lora_model else given.format or USUAL_FORMAT
    if given.output_dir:
        if settings.models.resolve() in given.output_dir.resolve().parents:
            raise ConfigError(
                "output_dir {folder} lies in the studio's own folder {home}, where the model is kept anyway: "
                "choose another place, or leave it out.",
                folder=given.output_dir,
                home=settings.models,
            )
        require_place(given.output_dir / "any")
    if not model:
        raise ConfigError("export needs a model: name one of the Models tab, a folder or a Hub id.")
    from studio.publishing.export import ExportRequest

    with Services.open(settings) as services, ProgressLine() as line:
        if given.local_files_only:
            services.registry.local_path(model, local_files_only=True)
        request = ExportRequest(model, form, given.quantization, given.name)
        made = services.exporter.export(request, line.step)
    if given.output_dir and made.path is not None:
        _copy(made.path, given.output_dir / made.path.name)
    give(given.json, {"schema_version": SCHEMA_VERSION, **as_dict(made)}, lambda: _summary(made))
    return 0


def _copy(model: Path, copy: Path) -> None:
    """Copies a model, aside until all of it is there; what else is in that folder is not touched."""
    if copy.exists() and copy.samefile(model):  # `--output_dir` is the folder of the models
        return
    with storage_errors(copy):
        copy.mkdir(parents=True, exist_ok=True)
        aside = Path(
            tempfile.mkdtemp(dir=copy, prefix=".new-")
        )  # on the same disk, whatever is mounted there
        try:
            shutil.copytree(model, aside, dirs_exist_ok=True)
            shutil.copytree(aside, copy, dirs_exist_ok=True, copy_function=os.replace)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
            with suppress(OSError):
                copy.rmdir()  # where nothing came
    say(f"Copied to {copy}")


def _summary(made: ModelSpec) -> str:
    lines = [f"{made.id}: {format_bytes(made.size_bytes)}, weights in {made.card['quantization']}"]
    for proof in made.card["parity"]:
        verdict = (
            "the same tokens"
            if proof["equal"]
            else f"{proof['different_tokens']} of {counted(proof['tokens'], 'token')} differ"
        )
        lines.append(f"{proof['b']} beside {proof['a']}: {verdict} ({counted(proof['clips'], 'clip')})")
    if how := form_of(made).proof_note:
        lines.append(str(how))
    if loss := loss_of(made.card.get("capabilities")):
        lines.insert(0, str(loss))
    say(f"Folder: {made.path}")
    return "\n".join(lines)
