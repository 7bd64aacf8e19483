"""OpenAI's endpoint for speech over the models of this studio: `/v1/audio/transcriptions` and `translations`,
`/v1/models`.

A request is read to the disk, waits in the same line as the page's visitors, and is heard as they are; a
client that goes away stops it. Whatever is wrong is answered in OpenAI's own shape.
"""

import asyncio
import shutil
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from uuid import uuid4

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route

from studio.errors import (
    AudioError,
    ConfigError,
    HubUnreachableError,
    ModelError,
    ModelNotFoundError,
    StorageError,
    StudioError,
)
from studio.files import storage_errors
from studio.messages import Message
from studio.options.checks import check_choice
from studio.registry.spec import ModelSpec
from studio.registry.store import DEMO_ID
from studio.services import Services
from studio.serving.answers import EVENTS_OF, FORMATS, GRANULARITIES, Growing, answer, event
from studio.serving.asgi import AsgiMessage, Receive, locale_of, visitor_of
from studio.serving.refusals import BUG, ENDPOINT, error_body, openai_error
from studio.serving.uploads import Uploads
from studio.serving.waiting import MOST, MOST_OF_A_VISITOR, Line, full, too_many
from studio.serving.work import Worked, named
from studio.transcription.engine import Progress, TranscribeOptions, Transcript
from studio.transcription.languages import AUTO
from studio.transcription.options import parse_numbers
from studio.translation import N_, said, tr
from studio.units import KIB, format_bytes

DEFAULT_MODEL = "whisper-1"
"""What clients call a model of which they know nothing: the one that this studio serves unless told."""
_FORM_BYTES = 256 * KIB
"""Of a request, so much may be anything but the recording."""
_MOST_FIELDS = 64
_DRAINED_SECONDS = 10.0
"""A client that sends too much is listened to for so long, or it would never read why it was refused."""
_UNBUFFERED = {"cache-control": "no-cache", "x-accel-buffering": "no"}
"""A proxy would else hold events back until there are many."""
_IS_TRUE = {"true": True, "1": True, "false": False, "0": False, "": False}
_TIMES = "timestamp_granularities[]"
"""A field that may come with its brackets or without."""
_OFF = N_("This studio's endpoint is switched off: set STUDIO_ENDPOINT to 1 and start it again.")
_NOWHERE = N_("There is nothing at {path}: the endpoint has {known}.")
_STOPPING = N_("The studio is being stopped: send the recording again when it is up.")
_KNOWN = "POST /v1/audio/transcriptions, POST /v1/audio/translations, GET /v1/models"


class Refused(Exception):
    """A request that cannot be answered."""

    def __init__(
        self, told: Message, status: int, *, param: str | None = None, code: str | None = None
    ) -> None:
        """`param` is the field of the form that it is about; `code` is for programs."""
        super().__init__(str(told))
        self.told = told
        self.status = status
        self.param = param
        self.code = code


@dataclass(frozen=True)
class Asked:
    """What a request asks for."""

    model: str
    """Id of the registry."""
    options: TranscribeOptions
    response_format: str
    granularities: frozenset[str]
    is_stream: bool
    path: Path
    """The recording, in the folder of uploads."""
    filename: str
    """As its client calls it."""


class Endpoint:
    """The routes, and what they share."""

    def __init__(self, services: Services, uploads: Uploads, line: Line, model: str = DEMO_ID) -> None:
        """`line` is where those wait who come at once, `model` what is served unless told."""
        self._services = services
        self._uploads = uploads
        self._line = line
        self._model = model
        self._app = Starlette(
            routes=self._own_routes() if services.settings.has_endpoint else [],
            exception_handlers={HTTPException: self._nowhere, Exception: _broken},
        )

    def routes(self) -> list[BaseRoute]:
        """To be put before all others of a server."""
        return [Mount(ENDPOINT, app=self._app)]

    def _own_routes(self) -> list[Route]:
        return [
            Route("/audio/transcriptions", self._hears("transcribe"), methods=["POST"]),
            Route("/audio/translations", self._hears("translate"), methods=["POST"]),
            Route("/models", self._list_models, methods=["GET"]),
            Route("/models/{model:path}", self._show_model, methods=["GET"]),
        ]

    async def _nowhere(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        locale = locale_of(request.headers)
        if not self._services.settings.has_endpoint:
            return openai_error(tr(_OFF, locale), 404, code="endpoint_off")
        told = tr(_NOWHERE, locale, path=f"{request.method} {request.url.path}", known=_KNOWN)
        return openai_error(told, error.status_code)

    # ------------------------------------------------------------------ models

    async def _list_models(self, request: Request) -> Response:
        shown = await run_in_threadpool(self._served)
        return JSONResponse({"object": "list", "data": [_row(spec) for spec in shown]})

    async def _show_model(self, request: Request) -> Response:
        if not request.path_params["model"]:
            return await self._list_models(request)
        try:
            return JSONResponse(_row(await run_in_threadpool(self._spec, request.path_params["model"])))
        except Refused as refused:
            return _refusal(refused, locale_of(request.headers))

    def _served(self) -> list[ModelSpec]:
        """What every request may name, and the folder that the server was started with, if it was."""
        registry = self._services.registry
        found = [spec for spec in registry.all() if not spec.problem and _is_for_all(spec)]
        with suppress(ModelNotFoundError):
            own = registry.get(self._model)
            found += [] if any(spec.id == own.id for spec in registry.all()) else [own]
        return found

    def _spec(self, name: str) -> ModelSpec:
        """The model of that id, or another of its names; never what nobody heard of, nor a folder but the one
        that the server was started with.
        """
        registry = self._services.registry
        wanted = self._model if name in ("", DEFAULT_MODEL) else name
        if wanted == self._model:
            with suppress(ModelNotFoundError):
                return registry.get(wanted)
        rows = {spec.id: spec for spec in registry.all()}
        with suppress(ModelNotFoundError, ConfigError):  # nor what no model can be named
            if (spec := rows.get(wanted) or rows.get(registry.get(wanted).id)) is not None:
                return spec
        told = Message("There is no model {model!r} here: GET /v1/models lists those there are.", model=name)
        raise Refused(told, 404, param="model", code="model_not_found")

    # ------------------------------------------------------------------ recordings

    def _hears(self, task: str) -> Callable[[Request], Awaitable[Response]]:
        async def hears(request: Request) -> Response:
            """The answer, a refusal in OpenAI's form, or nothing for who has left."""
            try:
                return await self._answer(request, task)
            except (Refused, StudioError) as error:
                return _refusal(error, locale_of(request.headers))
            except ClientDisconnect:
                return Response(status_code=499)  # nobody reads it

        return hears

    async def _answer(self, request: Request, task: str) -> Response:
        asked = await self._read(request, task)
        steps = self._steps(request, asked)
        if asked.is_stream:
            # Whatever is wrong shows before the first text: that has a status of its own.
            first = await anext(steps, None)
            if first is None:
                raise ClientDisconnect
            events = _events(first, steps, asked, locale_of(request.headers))
            return StreamingResponse(events, media_type="text/event-stream", headers=_UNBUFFERED)
        async with aclosing(steps):
            async for step in steps:
                if isinstance(step, Transcript):
                    return answer(step, asked.options, asked.response_format, asked.granularities)
        raise ClientDisconnect

    async def _steps(self, request: Request, asked: Asked) -> AsyncGenerator[Progress | Transcript]:
        """How far it is, and at last the transcript; ends without one when the client has gone.

        Raises:
            Refused: if the studio is stopped before that; beside it, what the engine raises.
        """
        stopped, line = threading.Event(), self._line
        if line.is_closed:
            raise _stopping()
        place = self._line.join(visitor_of(request, "program"))
        try:
            async for _before in place.wait():
                if line.is_closed:
                    raise _stopping()
                if await request.is_disconnected():
                    return
            # Who waits for the whole text needs no report: each would wake the loop in the midst of the work.
            work: Worked[Progress, Transcript] = Worked(
                lambda report: self._services.engines.transcribe(
                    asked.model,
                    asked.path,
                    asked.options,
                    report if asked.is_stream else lambda _: None,
                    stopped.is_set,
                )
            )
            async for report in work:
                if line.is_over:
                    raise _stopping()
                if await request.is_disconnected():
                    return
                if report is not None:
                    yield report
            yield work.result
        except StudioError as error:
            raise named(error, asked.path, asked.filename) from error
        finally:
            stopped.set()
            place.leave()
            with suppress(OSError):  # where an open file cannot be removed, it goes with the folder
                asked.path.unlink()

    # ------------------------------------------------------------------ the form

    async def _read(self, request: Request, task: str) -> Asked:
        """What is asked for, its recording on the disk.

        Raises:
            Refused, ConfigError: if it cannot be answered.
        """
        waiting = self._line.of_visitor(visitor_of(request, "program"))
        if waiting >= MOST_OF_A_VISITOR:
            raise Refused(too_many(waiting), 429, code="rate_limit_exceeded")
        if len(self._line) >= MOST:
            raise Refused(full(len(self._line)), 429, code="rate_limit_exceeded")
        most = self._uploads.largest_bytes + _FORM_BYTES
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > most:
            await _drain(request.receive)
            raise self._too_large()
        limited = Request(request.scope, _limited(request.receive, most, self._too_large))
        try:
            form = await limited.form(max_files=1, max_fields=_MOST_FIELDS, max_part_size=_FORM_BYTES)
        except Refused:
            await _drain(request.receive)
            raise
        except HTTPException as error:
            told = Message("The form cannot be read: {reason}", reason=error.detail)
            raise Refused(told, 400, code="invalid_form") from error
        try:
            return await self._checked(form, task)
        finally:
            await form.close()

    def _too_large(self) -> Refused:
        most = format_bytes(self._uploads.largest_bytes)
        told = Message(
            "The recording is larger than {most}: send a compressed one, or parts of it.", most=most
        )
        return Refused(told, 413, param="file", code="file_too_large")

    async def _checked(self, form: FormData, task: str) -> Asked:
        upload = form.get("file")
        if not isinstance(upload, UploadFile):
            told = Message("The form has no recording: send one as {name}, a file.", name="file")
            raise Refused(told, 400, param="file", code="missing_required_parameter")
        response_format = _choice(form, "response_format", FORMATS) or "json"
        is_stream = _IS_TRUE[_choice(form, "stream", _IS_TRUE)]
        if is_stream and response_format not in EVENTS_OF:
            told = Message(
                "{format} is not streamed: ask for json, or leave stream out.", format=response_format
            )
            raise Refused(told, 400, param="stream", code="unsupported_value")
        options, granularities = _options(form, task), _granularities(form)
        path, filename = self._uploads.folder / uuid4().hex, Path(upload.filename or "file").name

        def found_and_saved() -> ModelSpec:
            """The model that is asked for, once the sound is on the disk."""
            spec = self._spec(_text(form, "model"))
            _save(upload, path, filename)
            return spec

        spec = await run_in_threadpool(found_and_saved)  # once: each way into a thread and back takes time
        return Asked(spec.id, options, response_format, granularities, is_stream, path, filename)


async def _events(
    first: Progress | Transcript,
    rest: AsyncGenerator[Progress | Transcript],
    asked: Asked,
    locale: str,
) -> AsyncIterator[bytes]:
    """The events of a stream; what goes wrong in its midst is the last of them."""
    growing = Growing(asked.options)
    async with aclosing(rest):
        for told in growing.events(first):
            yield told
        try:
            async for step in rest:
                for told in growing.events(step):
                    yield told
        except (Refused, StudioError) as error:
            reason, status, param, code = _told(error)
            yield event(error_body(said(reason, locale), status, param=param, code=code))


# ---------------------------------------------------------------------- what goes wrong


def _is_for_all(spec: ModelSpec) -> bool:
    """Neither a Space visitor's own, nor one that no engine of the studio plays."""
    return spec.is_played and not spec.card.get("visitor")


def _refusal(error: Refused | StudioError, locale: str) -> Response:
    told, status, param, code = _told(error)
    return openai_error(said(told, locale), status, param=param, code=code)


def _told(error: Refused | StudioError) -> tuple[Message, int, str | None, str | None]:
    """What is said of an error, its status, its field of the form and its code."""
    if isinstance(error, Refused):
        return error.told, error.status, error.param, error.code
    told = error.message()
    if (name := told.values.get("name")) in _FIELDS:
        told = Message(told.template, **{**told.values, "name": _FIELDS[name]})
    return told, *_kind(error)


def _stopping() -> Refused:
    return Refused(Message(_STOPPING), 503, code="server_stopping")


_FIELDS = {
    **{name: name for name in ("language", "temperature", "response_format", "stream", _TIMES)},
    "initial_prompt": "prompt",
}
"""Options, and what they are called in the form."""


def _kind(error: StudioError) -> tuple[int, str | None, str | None]:
    """Status, field of the form and code of an error."""
    if isinstance(error, AudioError):
        return 400, "file", "invalid_audio"
    if isinstance(error, ConfigError):
        name = "language" if "language" in error.values else str(error.values.get("name"))
        return 400, _FIELDS.get(name), "invalid_value"
    if isinstance(error, HubUnreachableError):
        return 503, "model", "hub_unreachable"
    if isinstance(error, ModelError):
        return 400, "model", "model_broken"
    return 500, None, None


async def _broken(request: Request, _error: Exception) -> Response:
    """A bug: its traceback is in the log."""
    return openai_error(tr(BUG, locale_of(request.headers)), 500)


# ---------------------------------------------------------------------- the body


def _limited(receive: Receive, most_bytes: int, too_large: Callable[[], Refused]) -> Receive:
    """The same body; what is longer is given up, before it fills the disk."""
    came = 0

    async def limited() -> AsgiMessage:
        """The next piece of the body, as long as it is not too much by then."""
        nonlocal came
        message = await receive()
        came += len(message.get("body", b""))
        if came > most_bytes:
            raise too_large()
        return message

    return limited


async def _drain(receive: Receive) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAINED_SECONDS):
            while (await receive()).get("more_body", False):
                pass


def _save(upload: UploadFile, path: Path, filename: str) -> None:
    try:
        with storage_errors(path), path.open("wb") as file:
            shutil.copyfileobj(upload.file, file)
    except StorageError as error:
        path.unlink(missing_ok=True)
        raise named(error, path, filename) from error


# ---------------------------------------------------------------------- fields


def _text(form: FormData, name: str) -> str:
    value = form.get(name)
    return value.strip() if isinstance(value, str) else ""


def _choice(form: FormData, name: str, known: Collection[str]) -> str:
    """A field that is one of a few words, or nothing."""
    value = _text(form, name).lower()
    check_choice(name, value, ("", *known))
    return value


def _options(form: FormData, task: str) -> TranscribeOptions:
    """How to transcribe.

    Raises:
        ConfigError: for a value that cannot be used.
    """
    usual = TranscribeOptions().temperature
    given = _text(form, "temperature")
    first = parse_numbers("temperature", given) or usual[:1]
    if len(first) > 1:
        raise ConfigError("{name} must be a number, got {value!r}.", name="temperature", value=given)
    options = TranscribeOptions(
        language=_text(form, "language") or AUTO,
        task=task,
        # Words are aligned in any case: they say where captions may end, and how sure the model is.
        timestamps="word",
        initial_prompt=_text(form, "prompt"),
        truncate_prompt=True,
        temperature=first,
    )
    # As Whisper's own: warmer each time that a text repeats itself or is unsure.
    return replace(options, temperature=(*first, *(value for value in usual if value > first[0])))


def _granularities(form: FormData) -> frozenset[str]:
    given = [str(value) for name in (_TIMES, _TIMES[:-2]) for value in form.getlist(name)]
    for value in given:
        check_choice(_TIMES, value, GRANULARITIES)
    return frozenset(given) or frozenset({"segment"})


def _row(spec: ModelSpec) -> dict[str, object]:
    """A model as OpenAI lists one."""
    made = datetime.fromisoformat(spec.created).timestamp() if spec.created else 0
    return {"id": spec.id, "object": "model", "created": int(made), "owned_by": spec.source.value}
