"""Models from the Hugging Face Hub: what the cache holds, and downloads into it."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from studio.errors import HubUnreachableError, ModelNotFoundError, StorageError
from studio.files import is_folder, require_free_space, storage_errors
from studio.patience import ANSWERS_IN, not_the_hub, within
from studio.room import NO_LIMIT, Room, note_use
from studio.units import format_bytes

OnProgress = Callable[[int, int], None]
"""Told bytes done and bytes in all."""

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_ADDRESS = re.compile(
    r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/(?!datasets/|spaces/)"
    rf"({HUB_ID.pattern})(?:/tree/main)?/?(?:[?#].*)?"
)
_WANTED = ["*.json", "*.txt", "model.safetensors", "model-*.safetensors", "adapter_model.safetensors"]
_EXPORT = "model.bin"
"""Of CTranslate2; where there are safetensors, a pickle may be called so."""
_UNWANTED = ["*/*"]
"""Subfolders hold the same weights for other libraries."""
_ANSWER_SECONDS = 5.0


def id_of_address(name: str) -> str:
    """`https://huggingface.co/openai/whisper-tiny/tree/main` → `openai/whisper-tiny`; of anything else "".

    Of a branch other than main it is "", too: that is not what would be fetched.
    """
    found = _ADDRESS.fullmatch(name.strip())
    return found[1] if found else ""


def cached_snapshots(hf_cache: Path) -> dict[str, Path]:
    """Hub id → its newest snapshot in the Hugging Face cache, of every model that has one we may read."""
    found: dict[str, Path] = {}
    for folder in sorted(hf_cache.glob("models--*")) if is_folder(hf_cache) else ():
        with suppress(OSError, ValueError):  # closed to this user, gone since, or a damaged reference
            if snapshot := _snapshot(folder):
                found[folder.name.removeprefix("models--").replace("--", "/", 1)] = snapshot
    return found


def note_use_of(hub_id: str, hf_cache: Path) -> None:
    """Says that somebody uses a model of the cache (see `studio.room`)."""
    note_use(_repository(hf_cache, hub_id))


def _repository(hf_cache: Path, hub_id: str) -> Path:
    return hf_cache / f"models--{hub_id.replace('/', '--')}"


def _snapshot(folder: Path) -> Path | None:
    reference = folder / "refs" / "main"
    if reference.is_file():
        named = folder / "snapshots" / reference.read_text(encoding="utf-8").strip()
        if named.is_dir():
            return named
    snapshots = [path for path in (folder / "snapshots").glob("*") if path.is_dir()]
    return max(snapshots, key=lambda path: path.stat().st_mtime, default=None)


def download(
    hub_id: str,
    *,
    cache_dir: Path | None,
    on_progress: OnProgress | None = None,
    endpoint: str | None = None,
    answer_seconds: float = _ANSWER_SECONDS,
    most_bytes: int | None = None,
    room: Room = NO_LIMIT,
) -> Path:
    """Fetches configs, tokenizer and safetensors of a model into the cache, or an export for faster-whisper,
    and returns its snapshot folder.

    Pickles are not fetched. A model that is there already costs one question to the Hub. `answer_seconds`
    is how long the Hub may take for its first answer. For want of `room`, what was fetched long ago goes.

    Raises:
        HubUnreachableError: if the Hub does not answer.
        ModelNotFoundError: if the Hub knows no such model, or keeps it from this user.
        StorageError: if the disk, or `room`, is too small for it, or it is larger than `most_bytes`.
    """
    from huggingface_hub import snapshot_download

    folder = str(cache_dir) if cache_dir else None
    with _hub_errors(hub_id):
        # The first question has a time limit; `snapshot_download` would wait for ever.
        sizes = _sizes(hub_id, endpoint, answer_seconds)
        wanted = _wanted(sizes)
        _require_space(hub_id, sizes, wanted, cache_dir, most_bytes, room)
        with storage_errors(cache_dir or Path()):
            return Path(
                snapshot_download(
                    hub_id,
                    cache_dir=folder,
                    endpoint=endpoint,
                    etag_timeout=answer_seconds,
                    allow_patterns=wanted,
                    ignore_patterns=_UNWANTED,
                    tqdm_class=_progress_class(on_progress) if on_progress else None,
                )
            )


def _wanted(names: Collection[str]) -> list[str]:
    """What is fetched of these files: an export is a `model.bin` beside a vocabulary, and nothing else."""
    is_export = _EXPORT in names and {"vocabulary.json", "vocabulary.txt"} & set(names)
    has_tensors = any(name.endswith(".safetensors") and "/" not in name for name in names)
    return [*_WANTED, _EXPORT] if is_export and not has_tensors else _WANTED


def _sizes(hub_id: str, endpoint: str | None, answer_seconds: float) -> dict[str, int]:
    """Name → bytes of each file of a model."""
    from huggingface_hub import HfApi

    try:
        api = HfApi(endpoint=endpoint)
        ask = partial(api.model_info, hub_id, timeout=answer_seconds, files_metadata=True)
        info = within(ANSWERS_IN * answer_seconds, ask)
        sizes = {str(entry.rfilename): int(entry.size or 0) for entry in info.siblings or ()}
    except TimeoutError as error:
        raise _unreachable(hub_id) from error
    except (TypeError, KeyError, AttributeError) as error:  # JSON, but not a hub's
        raise not_the_hub(hub_id) from error
    if not sizes:
        raise not_the_hub(hub_id)
    return sizes


@contextmanager
def _hub_errors(hub_id: str) -> Iterator[None]:
    """Says what the hub's answer, or its silence, means for a model."""
    import httpx2
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
    )

    try:
        yield
    except HfHubHTTPError as error:
        if error.response is not None and error.response.status_code in (401, 403, 404):
            raise ModelNotFoundError(
                "The model hub has no model {model} for you: check the spelling, or log in with "
                "hf auth login if it is private.",
                model=hub_id,
            ) from error
        raise _unreachable(hub_id) from error
    except HFValidationError as error:
        raise ModelNotFoundError(
            "{model} cannot be the name of a model on the hub: check the spelling, it looks like "
            "openai/whisper-tiny.",
            model=hub_id,
        ) from error
    except ValueError as error:  # an answer that is no JSON
        raise not_the_hub(hub_id) from error
    except (httpx2.TransportError, OfflineModeIsEnabled, LocalEntryNotFoundError) as error:
        raise _unreachable(hub_id) from error


def _unreachable(hub_id: str) -> HubUnreachableError:
    return HubUnreachableError(
        "The model hub did not answer, and {model} is not on this disk: check the connection, or download "
        "the model on another machine and give its folder, or use the demo model.",
        model=hub_id,
    )


def _require_space(
    hub_id: str,
    sizes: Mapping[str, int],
    wanted: list[str],
    cache_dir: Path | None,
    most_bytes: int | None,
    room: Room,
) -> None:
    """Asks for room for all that will be fetched; files already there are counted too, to be safe."""
    from huggingface_hub import constants
    from huggingface_hub.utils._paths import filter_repo_objects

    names = filter_repo_objects(sizes, allow_patterns=wanted, ignore_patterns=_UNWANTED)
    needed_bytes = sum(sizes[name] for name in names)
    if most_bytes is not None and needed_bytes > most_bytes:
        raise StorageError(
            "{model} has {needed}, and visitors of this Space may download models of up to {most}: duplicate "
            "the Space (in its menu ⋮) to use it.",
            model=hub_id,
            needed=format_bytes(needed_bytes),
            most=format_bytes(most_bytes),
        )
    folder = cache_dir or Path(constants.HF_HUB_CACHE)
    own = _repository(folder, hub_id)
    if not room.take((path for path in folder.glob("*--*") if path != own), needed_bytes):
        raise StorageError(
            "This Space keeps {most} of models of the Hub, and there is no room for this one beside "
            "those that were used within the last hour: use one that is listed, try again later, or "
            "duplicate the Space (in its menu ⋮).",
            most=room.most,
        )
    require_free_space(folder, needed_bytes)


def _progress_class(on_progress: OnProgress) -> type[Any]:
    """A silent progress bar that passes the bytes of the download on."""
    from huggingface_hub.utils.tqdm import tqdm

    class Bytes(tqdm):
        """A bar that counts bytes instead of drawing them."""

        def __init__(self, *args: Any, **options: Any) -> None:
            # One class serves three bars: files, bytes received, and bytes written, which is the one we tell.
            self.counts_written = str(options.get("desc")).startswith("Reconstructing")
            super().__init__(*args, **{**options, "disable": True})  # type: ignore[no-untyped-call]
            self.done_bytes = 0

        def update(self, n: float | None = 1) -> None:
            """Counts what is written."""
            if self.counts_written:
                self.done_bytes += int(n or 0)
                on_progress(self.done_bytes, int(self.total or 0))

    return Bytes
