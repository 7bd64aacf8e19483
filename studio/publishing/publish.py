"""A model onto the Hugging Face Hub: what would be sent, and sending it.

Only the model's own files go, with a card for people (`README.md`) and what of the studio's own card matters
to who loads it. All of it becomes one commit, made last: a line that breaks leaves nothing half on the Hub,
and what was sent is not sent again.
"""

import json
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, BinaryIO

from studio.errors import ConfigError, HubUnreachableError, StudioError
from studio.messages import Message
from studio.publishing.card import README, hub_base, model_card
from studio.publishing.formats import FORMS, form_of
from studio.publishing.space import FOLDER, space_files
from studio.registry.spec import CARD_FILE, CARD_VERSION, ModelKind, ModelSource, ModelSpec, require_whole
from studio.registry.store import ModelRegistry
from studio.registry.tensors import read_json_object
from studio.units import format_bytes
from studio.watching import OnStep, untold

_MAY_NAME_PLACES = (
    *("adapter_config.json", "config.json", "generation_config.json", "processor_config.json"),
    *("preprocessor_config.json", "special_tokens_map.json", "tokenizer_config.json"),
)
_PUBLIC = (
    *("kind", "method", "languages", "is_multilingual", "audio_context", "clip_seconds", "long_recordings"),
    *("metrics", "short_audio", "parity", "quantization", "is_exact", "format", "weights"),
    *("weights_bytes", "created"),
)
"""What of `model.json` is true of the model wherever it is."""
_PLACE = re.compile(r"\.{0,2}[/\\]|~|[A-Za-z]:[/\\]")
"""A path of a machine begins so."""
_WHERE_FROM = ("_name_or_path", "name_or_path")
"""Where it was loaded from, which looks like a name of the Hub where it is a path within a folder."""
_TOKEN = re.compile(r"[!-~]{1,500}")
_LICENSE = re.compile(r"[a-z0-9][a-z0-9.-]{0,60}")
_ATTRIBUTES = ".gitattributes"
"""The Hub makes it with each repository."""
_ANSWER_SECONDS = 10.0
_SILENT_SECONDS = 60.0
"""A Hub that says nothing for so long is not waited for; the library alone would wait for ever."""
_LOOK_SECONDS = 0.5
_PAUSES_SECONDS = (2.0, 10.0, 30.0)
"""Between one try and the next, beside those that the library makes itself."""
_MAY_PASS = (408, 429, 500, 502, 503, 504)


@dataclass(frozen=True)
class PublishRequest:
    """What to publish as what."""

    model: str
    """Registry id or folder."""
    repo_id: str
    """`owner/name` on the Hub."""
    is_public: bool = False
    replaces: bool = False
    """Whether it may take the place of what is there under that name."""
    license: str = ""
    """As the Hub spells it, such as apache-2.0; empty: the base's, where that is known."""
    is_space: bool = False
    """Whether it goes as a Space, a page where others try it, in place of the model alone."""

    @property
    def repo_type(self) -> str:
        """As the library calls it."""
        return "space" if self.is_space else "model"


@dataclass(frozen=True)
class PublishedFile:
    """A file as it will be sent."""

    name: str
    size_bytes: int
    content: Path | bytes


@dataclass(frozen=True)
class Publication:
    """Everything that would be sent."""

    request: PublishRequest
    spec: ModelSpec
    files: tuple[PublishedFile, ...]
    card: str
    """The text of `README.md`."""

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(file.size_bytes for file in self.files)


def prepare(registry: ModelRegistry, request: PublishRequest) -> Publication:
    """What would be sent; nothing is asked of the Hub.

    Raises:
        ConfigError: if the name cannot be one of the Hub, or this model is not to be published.
        ModelError: if the model cannot be used.
    """
    spec = registry.get(request.model)
    request = replace(request, repo_id=request.repo_id.strip(), license=request.license.strip().lower())
    _check(request, spec)
    assert spec.path is not None
    own = sorted(
        {path for pattern in form_of(spec).files for path in spec.path.glob(pattern) if path.is_file()}
    )
    card = model_card(spec, request.repo_id, request.license)
    public = json.dumps(_public_card(spec), ensure_ascii=False, indent=2) + "\n"
    made = {README: card.encode(), CARD_FILE: public.encode()}
    files = [_file(path, spec) for path in own]
    if request.is_space:
        files = [replace(file, name=f"{FOLDER}/{file.name}") for file in files]
        made = space_files(spec, request.repo_id, request.license)
        card = made[README].decode()
    files += [PublishedFile(name, len(content), content) for name, content in made.items()]
    return Publication(request, spec, tuple(sorted(files, key=lambda file: file.size_bytes)), card)


def require_token(given: str) -> str:
    """What was given, without what stands around it.

    Raises:
        ConfigError: if it is no token.
    """
    token = given.strip()
    if not _TOKEN.fullmatch(token):
        raise ConfigError(
            "A token of the Hub is needed, one that may write: make it at "
            "https://huggingface.co/settings/tokens, and give it in HF_TOKEN or in the page's field."
        )
    return token


class Publisher:
    """Sends models to the Hub."""

    def __init__(
        self, endpoint: str | None = None, pauses_seconds: Sequence[float] = _PAUSES_SECONDS
    ) -> None:
        """`endpoint` is the Hub's address, unless given that of the libraries."""
        self._endpoint = endpoint
        self._pauses = pauses_seconds

    def send(self, publication: Publication, token: str, on_step: OnStep = untold) -> str:
        """Sends it, and gives the address of its page. `on_step` is told how far it is; raising ends it.

        The token is used and forgotten: it stands in no file, log or error.

        Raises:
            ConfigError: if the Hub does not take it from this token, or under this name.
            HubUnreachableError: if the Hub does not answer, or something else does.
        """
        token = require_token(token)
        return _beside(lambda tell: self._sent(publication, token, tell), on_step)

    def _sent(self, publication: Publication, token: str, tell: OnStep) -> str:
        from huggingface_hub import HfApi
        from huggingface_hub.utils.tqdm import disable_progress_bars

        disable_progress_bars()  # what is sent is told by `tell`
        api = HfApi(endpoint=self._endpoint, token=token)
        repo_id = publication.request.repo_id
        with _refusals(repo_id, token):
            tell(Message("Asking the Hub for {name} …", name=repo_id), 0.0)
            _do_not_wait_for_ever()
            _make_room(api, publication)
            self._tried(lambda: _upload(api, publication, tell), tell)
            return f"{api.endpoint}/{'spaces/' if publication.request.is_space else ''}{repo_id}"

    def _tried(self, work: Callable[[], None], tell: OnStep) -> None:
        """Once more after each pause, where the line broke or the Hub asks for patience."""
        import httpx2
        from huggingface_hub.errors import HfHubHTTPError

        for pause in (*self._pauses, None):
            try:
                _do_not_wait_for_ever()
                return work()
            except httpx2.TimeoutException:
                raise  # the library has asked several times by then
            except (httpx2.TransportError, HfHubHTTPError, ConnectionError, TimeoutError) as error:
                status = _status(error)
                if pause is None or (status is not None and status not in _MAY_PASS):
                    raise
                until = time.monotonic() + pause
                while time.monotonic() < until:
                    tell(Message("The connection broke: going on soon …"), 0.0)
                    time.sleep(min(_LOOK_SECONDS, pause))
        return None


# ---------------------------------------------------------------------- what is sent


def _check(request: PublishRequest, spec: ModelSpec) -> None:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils._validators import validate_repo_id

    if spec.source is ModelSource.DEMO:
        raise ConfigError(
            "The demo model comes with the studio and is not published: choose one that you made."
        )
    if spec.path is None or spec.source is ModelSource.DOWNLOADED:
        raise ConfigError("{model} is a model of others, from the Hub: choose one made here.", model=spec.id)
    require_whole(spec)
    if not form_of(spec).files:
        raise ConfigError(
            "{model} is for another program ({form}), of which this studio knows no files to send: publish "
            "the model that it was made from.",
            model=spec.id,
            form=spec.form,
        )
    if request.is_space and not form_of(spec).space_app:
        raise ConfigError(
            "{model} is for another program ({form}), which no Space runs: make one of the model that it "
            "was made from.",
            model=spec.id,
            form=spec.form,
        )
    if spec.kind is ModelKind.ADAPTER and not hub_base(spec):
        raise ConfigError(
            "{model} is an adapter of {base}, which is not on the Hub, so that nobody could load it: merge "
            "it into its base (Export in the Models tab, or python -m studio export {model} --format "
            "merged), and publish that.",
            model=spec.id,
            base=Path(spec.base_model or "?").name,
        )
    try:
        validate_repo_id(request.repo_id)
        is_name = request.repo_id.count("/") == 1
    except HFValidationError:
        is_name = False
    if not is_name:
        raise ConfigError(
            "{name!r} cannot be the name of a model on the Hub: give owner/name, of letters, digits, dots, "
            "dashes and underscores.",
            name=request.repo_id[:100],
        )
    if request.license and not _LICENSE.fullmatch(request.license):
        raise ConfigError(
            "{license!r} is not how the Hub spells a license: give one such as apache-2.0, mit or "
            "cc-by-4.0, or leave it out.",
            license=request.license[:100],
        )


def _file(path: Path, spec: ModelSpec) -> PublishedFile:
    """As it is, or without places of this machine, if it names some."""
    if path.name in _MAY_NAME_PLACES:
        told = read_json_object(path)
        said = {**_without_places(told)}
        if path.name == "adapter_config.json":
            said["base_model_name_or_path"] = hub_base(spec)
        if said != told:
            content = (json.dumps(said, ensure_ascii=False, indent=2) + "\n").encode()
            return PublishedFile(path.name, len(content), content)
    return PublishedFile(path.name, path.stat().st_size, path)


def _without_places(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {name: item for name, item in value.items() if name not in _WHERE_FROM and not _is_place(item)}
        return {name: _without_places(item) for name, item in kept.items()}
    return (
        [_without_places(item) for item in value if not _is_place(item)] if isinstance(value, list) else value
    )


def _is_place(value: Any) -> bool:
    return isinstance(value, str) and len(value) > 2 and _PLACE.match(value) is not None


def _public_card(spec: ModelSpec) -> dict[str, Any]:
    card = {name: spec.card[name] for name in _PUBLIC if name in spec.card}
    found = spec.card.get("capabilities")
    if isinstance(found, Mapping):
        card["capabilities"] = {
            name: value for name, value in found.items() if name not in ("model", "base_model")
        }
    base = {"base_model": hub_base(spec)} if hub_base(spec) else {}
    return {"schema_version": CARD_VERSION, "kind": spec.kind, **base, **_without_places(card)}


# ---------------------------------------------------------------------- sending


def _do_not_wait_for_ever() -> None:
    """Sets how long the library's connections wait, which it makes anew when one is lost."""
    import httpx2
    from huggingface_hub import get_session

    get_session().timeout = httpx2.Timeout(_SILENT_SECONDS, connect=_ANSWER_SECONDS)


def _make_room(api: Any, publication: Publication) -> None:
    """A repository that takes the model: made now, or there and empty, or to be written over."""
    from huggingface_hub.errors import RepositoryNotFoundError

    request = publication.request
    try:
        there = _info(api, request)
    except RepositoryNotFoundError:
        there = None
    who = api.whoami()
    role = who["auth"]["accessToken"].get("role") if who.get("auth") else None
    if role == "read":
        raise ConfigError(
            "This token may only read: make one that may write at https://huggingface.co/settings/tokens."
        )
    if there is None:
        sdk = {"space_sdk": "gradio"} if request.is_space else {}
        api.create_repo(request.repo_id, private=not request.is_public, repo_type=request.repo_type, **sdk)
        return
    if not there.private and not request.is_public:
        raise ConfigError(
            "{name} is public on the Hub, and this was to be private: choose another name, or say that it "
            "may be public.",
            name=request.repo_id,
        )
    others = {row.rfilename for row in there.siblings} - {file.name for file in publication.files}
    others = {name for name in others if name != _ATTRIBUTES and not _is_own_of(request, name)}
    if there.private and request.is_public and others:
        raise ConfigError(
            "{name} is private on the Hub and holds {other}, too, which everybody would see: make it public "
            "in its settings there, or choose another name.",
            name=request.repo_id,
            other=sorted(others)[0],
        )
    if not request.replaces and {row.rfilename for row in there.siblings} - {_ATTRIBUTES}:
        raise _taken(request.repo_id)


def _upload(api: Any, publication: Publication, tell: OnStep) -> None:
    from huggingface_hub import CommitOperationDelete

    request, total = publication.request, max(1, publication.size_bytes)
    repo_id, kind = request.repo_id, {"repo_type": request.repo_type}
    done = 0
    additions = []
    for file in publication.files:
        doing = Message("Sending {file} ({size}) …", file=file.name, size=format_bytes(file.size_bytes))
        tell(doing, done / total)

        def on_bytes(sent: int, doing: Message = doing, before: int = done) -> None:
            """Tells how much of a file is sent."""
            tell(doing, min(1.0, (before + sent) / total))

        addition = _addition(file, on_bytes)
        api.preupload_lfs_files(repo_id, [addition], free_memory=False, **kind)
        additions.append(addition)
        done += file.size_bytes
    tell(Message("Making one commit of it …"), 1.0)
    names = {file.name for file in publication.files}
    there = _info(api, request)
    outdated = [row.rfilename for row in there.siblings if _is_own_of(request, row.rfilename)]
    deletions = [CommitOperationDelete(path_in_repo=name) for name in outdated if name not in names]
    message = "Upload with Whisper Studio"
    api.create_commit(repo_id, [*additions, *deletions], commit_message=message, **kind)
    if there.private and request.is_public:
        api.update_repo_settings(repo_id, private=False, **kind)


def _info(api: Any, request: PublishRequest) -> Any:
    return api.repo_info(request.repo_id, repo_type=request.repo_type, timeout=_ANSWER_SECONDS)


def _is_own_of(request: PublishRequest, name: str) -> bool:
    """Whether a file of the repository is one of a model, which in a Space has its folder."""
    own = name.removeprefix(f"{FOLDER}/") if request.is_space else name
    return any(fnmatch(own, pattern) for form in FORMS for pattern in form.files)


def _addition(file: PublishedFile, on_bytes: Callable[[int], None]) -> Any:
    """What the library sends; of a file that goes in one piece, `on_bytes` is told how much is gone.

    With Xet, which reads the file itself, it is told nothing.
    """
    from huggingface_hub import CommitOperationAdd

    class Told(CommitOperationAdd):
        """A file that tells how much of it is read."""

        @contextmanager
        def as_file(self, with_tqdm: bool = False) -> Iterator[BinaryIO]:
            """The opened file; the library asks for a bar where it sends it in one piece."""
            with super().as_file() as opened:
                if with_tqdm:
                    read = opened.read

                    def told(size: int = -1) -> bytes:
                        """Reads on, and says how much has been read before."""
                        on_bytes(opened.tell())
                        return read(size)

                    opened.read = told  # type: ignore[method-assign]
                yield opened

    return Told(path_in_repo=file.name, path_or_fileobj=file.content)


class _Left(Exception):
    """Ends the work of a thread that nobody waits for any more."""


def _beside(work: Callable[[OnStep], str], on_step: OnStep) -> str:
    """Does it in a thread of its own: a library that waits for the Hub cannot be interrupted, but be left. It
    then ends before its next step, and makes no commit.
    """
    steps: queue.SimpleQueue[tuple[Message, float] | None] = queue.SimpleQueue()
    left = threading.Event()
    found: list[str] = []
    raised: list[BaseException] = []

    def tell(doing: Message, share: float) -> None:
        """In the thread: hands a step over, or ends the work if nobody waits for it."""
        if left.is_set():
            raise _Left
        steps.put((doing, share))

    def run() -> None:
        """In the thread: leaves what came out or was raised, and then that it is over."""
        try:
            found.append(work(tell))
        except BaseException as error:  # noqa: BLE001 - raised by who waits
            raised.append(error)
        finally:
            steps.put(None)

    threading.Thread(target=run, name="publish", daemon=True).start()
    step: tuple[Message, float] | None = None
    try:
        while True:
            try:
                step = steps.get(timeout=_LOOK_SECONDS)
                if step is None:
                    break
            except queue.Empty:
                pass  # time for who listens to end it
            if step:
                on_step(*step)
    except BaseException:
        left.set()
        raise
    if raised:
        raise raised[0]
    return found[0]


# ---------------------------------------------------------------------- what the Hub's answers mean


def _status(error: Exception) -> int | None:
    response = getattr(error, "response", None)
    return response.status_code if response is not None else None


def _taken(repo_id: str) -> ConfigError:
    return ConfigError(
        "{name} is taken on the Hub: choose another name, or allow replacing what is there (on the command "
        "line --replace).",
        name=repo_id,
    )


@contextmanager
def _refusals(repo_id: str, token: str) -> Iterator[None]:
    """Says what the Hub's answer, or its silence, means; the token is in none of it."""
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        yield
    except StudioError:
        raise
    except HfHubHTTPError as error:
        raise _refused(repo_id, _status(error), str(error.server_message or "").replace(token, "…")) from None
    except OfflineModeIsEnabled:
        raise ConfigError("HF_HUB_OFFLINE is set, so nothing can be published: unset it.") from None
    except (httpx2.HTTPError, OSError, RuntimeError):  # the latter two are those of Xet
        raise HubUnreachableError(
            "The Hub did not answer: check the connection, and publish {name} again. What was sent is not "
            "sent again.",
            name=repo_id,
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError, IndexError):
        raise HubUnreachableError(
            "Something else answered in place of the Hub: if your network asks for a login, log in, and "
            "publish {name} again.",
            name=repo_id,
        ) from None


def _refused(repo_id: str, status: int | None, said: str) -> StudioError:
    if status == 401:
        return ConfigError(
            "The Hub does not know this token: make one that may write at "
            "https://huggingface.co/settings/tokens."
        )
    if status in (403, 404):
        return ConfigError(
            "This token may not write {name}: choose a name that begins with your own, or make a token that "
            "may write there at https://huggingface.co/settings/tokens.",
            name=repo_id,
        )
    if status == 409:
        return _taken(repo_id)
    if status == 429:
        return HubUnreachableError(
            "The Hub was asked too often: publish {name} again in some minutes. What was sent is not sent "
            "again.",
            name=repo_id,
        )
    if status is not None and status >= 500:
        return HubUnreachableError(
            "The Hub has trouble of its own ({status}): publish {name} again later. What was sent is not "
            "sent again.",
            status=status,
            name=repo_id,
        )
    return ConfigError(
        "The Hub did not take {name} ({status}): {reason}",
        name=repo_id,
        status=status,
        reason=" ".join(said.split())[:200] or Message("it did not say why."),
    )
