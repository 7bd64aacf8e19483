"""`publish`: a model of this studio onto the Hugging Face Hub, with its card; or what would be sent."""

from collections.abc import Sequence

from studio.cli.output import ProgressLine, give, say, table
from studio.cli.parsing import Parser
from studio.errors import ConfigError
from studio.publishing.findings import loss_of
from studio.publishing.publish import Publication, Publisher, PublishRequest, prepare, require_token
from studio.services import Services
from studio.settings import Settings
from studio.units import format_bytes

SCHEMA_VERSION = 1


def parser() -> Parser:
    """`publish MODEL OWNER/NAME`; the token is that of HF_TOKEN or of `hf auth login`."""
    made = Parser(
        "publish",
        "Put a model onto the Hugging Face Hub, private unless told, with the token of HF_TOKEN or of "
        "`hf auth login`.",
    )
    made.add_argument("model", nargs="?", default="", metavar="MODEL", help="Registry id or folder.")
    made.add_argument("repo_id", nargs="?", default="", metavar="OWNER/NAME", help="Its name on the Hub.")
    made.flag("public", "Everybody may see and load it.")
    made.flag("replace", "Take the place of what is there under that name.")
    made.option(
        "license", "As the Hub spells it, such as apache-2.0 (default: the base's, if known).", default=""
    )
    made.flag("space", "As a Space, a page where others try it, in place of the model alone.")
    made.flag("dry_run", "Send nothing: list every file, and show the card.")
    made.flag("json", "Print JSON.")
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Publishes one model."""
    given = parser().read(arguments)
    if not given.model or not given.repo_id:
        raise ConfigError("publish takes a model and its name on the Hub: publish MODEL owner/name.")
    with Services.open(settings) as services:
        request = PublishRequest(
            given.model, given.repo_id, given.public, given.replace, given.license, given.space
        )
        publication = prepare(services.registry, request)
    if (lost := loss_of(publication.spec.card.get("capabilities"))) is not None:  # before anything is sent
        say(f"Note: {lost}")
    address = "" if given.dry_run else _send(publication)
    told = {"schema_version": SCHEMA_VERSION, **_as_dict(publication), "address": address}
    give(given.json, told, lambda: _summary(publication) if given.dry_run else address)
    return 0


def _send(publication: Publication) -> str:
    from huggingface_hub import get_token

    token = require_token(get_token() or "")
    say(_summary(publication))
    with ProgressLine() as line:
        return Publisher().send(publication, token, line.step)


def _visibility(publication: Publication) -> str:
    return "public" if publication.request.is_public else "private"


def _as_dict(publication: Publication) -> dict[str, object]:
    return {
        "model": publication.spec.id,
        "repo_id": publication.request.repo_id,
        "repo_type": publication.request.repo_type,
        "visibility": _visibility(publication),
        "files": [{"name": file.name, "size_bytes": file.size_bytes} for file in publication.files],
        "size_bytes": publication.size_bytes,
        "card": publication.card,
    }


def _summary(publication: Publication) -> str:
    rows = [(file.name, format_bytes(file.size_bytes)) for file in publication.files]
    rows.append(("all", format_bytes(publication.size_bytes)))
    name = f"{publication.request.repo_id}, {_visibility(publication)}"
    return f"{table((name, 'SIZE'), rows)}\n\n{publication.card}"
