"""Where things live and what is allowed here: the only reader of the environment.

Each `STUDIO_*` variable is one field of `Settings` and one row of the table in the README.
"""

import math
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import platformdirs

from studio.errors import ConfigError, StorageError
from studio.files import InFolder
from studio.units import GIB, MIB

# Threads that wait for each other by spinning take the core from the one that they wait for, as soon as
# anything else runs. It is read when torch is loaded, here and in all processes that are started from here.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Of Apple's cards: what they lack is computed by the processor. It is read then, too.
os.environ.setdefault("PYTORCH_ENABLE_MPS_FALLBACK", "1")
if os.environ.get("SPACE_ID"):
    # What the Hub gives to the owner's token alone is not for visitors, who name what is read there.
    os.environ.setdefault("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")

PROJECT_ROOT = Path(__file__).resolve().parent.parent
"""What holds the package `studio`: a checkout, or the folder it was installed in."""
_INSTALLED_ASSETS = Path(__file__).resolve().parent / "assets"
ASSETS = _INSTALLED_ASSETS if _INSTALLED_ASSETS.is_dir() else PROJECT_ROOT / "assets"
DEMO_MODEL = ASSETS / "demo-whisper"
DEMO_SPEECH = ASSETS / "demo-speech"
PASSAGES = ASSETS / "passages" / "passages.jsonl"
"""Recordings in several languages that a run rehearses."""

_FILES_AT_ONCE = 20
"""Of the largest size: so much is kept of uploads."""
_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"", "0", "false", "no", "off"}


@dataclass(frozen=True)
class Settings:
    """Folders and limits of one studio."""

    home: Path = field(metadata={"env": "STUDIO_HOME"})
    """Where runs, models, recordings and caches are kept."""
    on_spaces: bool = field(default=False, metadata={"env": "SPACE_ID"})
    """Whether this studio runs as a Hugging Face Space."""
    owner: str = ""
    """The account at Hugging Face that owns this Space, where its visitors log in there; else empty."""
    zero_gpu: bool = False
    """Whether this Space has no GPU of its own but is lent one, as ZeroGPU says of itself."""
    visitor: str = ""
    """Who asks, on a Space whose visitors are kept apart: of runs, data and recordings they have their own.
    Empty: all of them."""
    allow_training: bool = field(default=True, metadata={"env": "STUDIO_ALLOW_TRAINING"})
    """Whether the Train tab may start runs; off on Spaces unless set."""
    model_idle_seconds: float = field(default=300.0, metadata={"env": "STUDIO_MODEL_IDLE_SECONDS"})
    """A model that nobody used for so long leaves memory."""
    stop_grace_seconds: float = field(default=60.0, metadata={"env": "STUDIO_STOP_GRACE_SECONDS"})
    """How long a stopped run may take to save its checkpoint before its processes are ended."""
    max_upload_mb: float = field(default=500.0, metadata={"env": "STUDIO_MAX_UPLOAD_MB"})
    """Largest file the page accepts, in megabytes; 50 on Spaces unless set."""
    kept_bytes: float = field(default=math.inf, metadata={"env": "STUDIO_KEPT_GB"})
    """All that a Space keeps of the Hub and its visitors (see `studio.room`); elsewhere without a limit."""
    threads: int = field(default=0, metadata={"env": "STUDIO_THREADS"})
    """CPU threads for torch; 0 lets torch decide."""
    machine_wait_seconds: float = field(default=600.0, metadata={"env": "STUDIO_MACHINE_WAIT_SECONDS"})
    """How long a run on several machines waits for the others to come."""
    working_dir: Path = field(default=Path(), metadata={"env": "STUDIO_WORKING_DIR"})
    """Where sounds are looked for that are not beside their list; a run has that of who asked for it."""
    hf_cache: Path = field(default=Path(), metadata={"env": "HF_HUB_CACHE"})
    """The Hugging Face cache, listed by the registry."""
    server_port: int | None = field(default=None, metadata={"env": "GRADIO_SERVER_PORT"})
    """Port asked for through Gradio's own variable."""
    server_name: str = field(default="", metadata={"env": "GRADIO_SERVER_NAME"})
    """Address to listen on through Gradio's own variable; empty: this machine only, on Spaces all."""

    auth: Mapping[str, str] = field(
        default_factory=dict, repr=False, hash=False, metadata={"env": "STUDIO_AUTH"}
    )
    """Who may log in: name → password; empty: no login is asked for."""
    api_key: str = field(default="", repr=False, metadata={"env": "STUDIO_API_KEY"})
    """What programs bring that ask the endpoint, as bearer token; empty: none is asked for."""
    has_endpoint: bool = field(default=True, metadata={"env": "STUDIO_ENDPOINT"})
    """Whether OpenAI's endpoint answers beside the page; off on public Spaces unless set."""
    is_open: bool = field(default=False, metadata={"env": "STUDIO_PUBLIC"})
    """Whether others may come in without a login."""
    hosts: tuple[str, ...] = field(default=(), metadata={"env": "STUDIO_HOSTS"})
    """Names, with or without a port, by which this studio is reached, beside those of the machine."""
    space_host: str = ""
    """The same of a Space, set by Hugging Face: several, with commas, where it has a domain of its own."""
    uploads: Path | None = None
    """Where uploads are kept, through Gradio's own variable; None: where the system keeps temporary files."""
    share: bool = field(default=False, metadata={"env": "GRADIO_SHARE"})
    """Whether Gradio makes a public link, through its own variable."""
    mcp: bool = field(default=False, metadata={"env": "STUDIO_MCP"})
    """Whether programs may use the interface as tools of the Model Context Protocol."""

    world_size: int = 1
    """How many processes share a list, as `accelerate launch` and `torchrun` say."""
    rank: int = 0
    """Which of them this one is."""
    local_rank: int = 0
    """The same among those of this machine."""
    local_world_size: int = 0
    """How many of them are on this machine; 0 if nobody says."""

    popen: Callable[..., subprocess.Popen[Any]] = subprocess.Popen
    """What starts processes; a test hands in a quicker way."""

    runs = InFolder("runs", "home")
    """One folder a training run."""
    models = InFolder("models", "home")
    """One folder a model made here."""
    quarantine = InFolder("quarantine", "home")
    """Rows set aside by the data check."""
    calibration = InFolder("calibration", "home")
    """Receipts of memory that was measured on this machine."""
    cache = InFolder("cache", "home")
    """Whatever can be made again."""
    recordings = InFolder("recordings", "own")
    """One folder a list of sentences read aloud."""
    datasets = InFolder("datasets", "own")
    """One folder a data set that was uploaded or added."""

    @property
    def is_public(self) -> bool:
        """Whether visitors are strangers: on a Space that trains nothing, its models are its owner's."""
        return self.on_spaces and not self.allow_training

    @property
    def host(self) -> str:
        """Address that page and endpoint listen on."""
        return self.server_name or ("0.0.0.0" if self.on_spaces else "127.0.0.1")

    @property
    def own(self) -> Path:
        """Where what belongs to who asks lies: everything, or a folder of one visitor."""
        return self.home / "visitors" / self.visitor if self.visitor else self.home

    @property
    def most_upload_bytes(self) -> int:
        """All that is uploaded within an hour; what is unpacked from it may be as large."""
        return int(_FILES_AT_ONCE * self.max_upload_mb * MIB)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> "Settings":
        """Settings of this process.

        Raises:
            ConfigError: if a variable holds something else than it should.
        """
        env = os.environ if environ is None else environ
        on_spaces = bool(env.get("SPACE_ID"))
        allow_training = _flag(env, "STUDIO_ALLOW_TRAINING", default=not on_spaces)
        return cls(
            home=_home(env, on_spaces),
            on_spaces=on_spaces,
            owner=_owner(env),
            zero_gpu=on_spaces and _flag(env, "SPACES_ZERO_GPU", default=False),
            allow_training=allow_training,
            model_idle_seconds=_number(env, "STUDIO_MODEL_IDLE_SECONDS", 300.0),
            stop_grace_seconds=_number(env, "STUDIO_STOP_GRACE_SECONDS", 60.0),
            max_upload_mb=_number(env, "STUDIO_MAX_UPLOAD_MB", 50.0 if on_spaces else 500.0),
            kept_bytes=_number(env, "STUDIO_KEPT_GB", 40.0) * GIB if on_spaces else math.inf,
            threads=int(_number(env, "STUDIO_THREADS", 0)),
            machine_wait_seconds=_number(env, "STUDIO_MACHINE_WAIT_SECONDS", 600.0),
            working_dir=Path(env.get("STUDIO_WORKING_DIR", "")).expanduser(),
            hf_cache=_hf_cache(env),
            server_port=_port(env),
            server_name=env.get("GRADIO_SERVER_NAME", ""),
            rank=int(_number(env, "RANK", 0)),
            local_rank=int(_number(env, "LOCAL_RANK", 0)),
            world_size=int(_number(env, "WORLD_SIZE", 1)),
            local_world_size=int(_number(env, "LOCAL_WORLD_SIZE", 0)),
            auth=_passwords(env.get("STUDIO_AUTH", "")),
            api_key=_api_key(env.get("STUDIO_API_KEY", "")),
            has_endpoint=_flag(env, "STUDIO_ENDPOINT", default=allow_training or not on_spaces),
            is_open=_flag(env, "STUDIO_PUBLIC", default=False),
            hosts=tuple(filter(None, env.get("STUDIO_HOSTS", "").lower().replace(",", " ").split())),
            space_host=env.get("SPACE_HOST", ""),
            uploads=Path(env["GRADIO_TEMP_DIR"]) if env.get("GRADIO_TEMP_DIR") else None,
            share=_flag(env, "GRADIO_SHARE", default=False),
            mcp=_flag(env, "STUDIO_MCP", default=False),
        )

    def prepare(self) -> None:
        """Makes the folders.

        Raises:
            StorageError: if the home folder cannot be written.
        """
        for folder in (self.runs, self.models, self.quarantine, self.calibration, self.cache):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StorageError(
                    "Cannot write the studio's folder {folder}: set STUDIO_HOME to a folder you own.",
                    folder=self.home,
                ) from error


def shell_asks() -> bool:
    """Whether this process was started to say what can follow on a command line, by the TAB key."""
    return "_ARGCOMPLETE" in os.environ


def local_rank() -> int:
    """Which of a run's processes on this machine this is, as its launcher numbered them; 0 without one."""
    value = os.environ.get("LOCAL_RANK", "0")
    return int(value) if value.isdecimal() else 0


def visible_cards() -> list[str] | None:
    """Which of the machine's cards CUDA may use, as the user named them by number or id; None: all."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return None if named is None else [name.strip() for name in named.split(",")]


def keep_uploads_in(folder: Path | None) -> Path | None:
    """Tells Gradio where to keep uploads, which looks for that in the environment alone; gives what it was
    told before."""
    before = os.environ.pop("GRADIO_TEMP_DIR", "")
    if folder is not None:
        os.environ["GRADIO_TEMP_DIR"] = str(folder)
    return Path(before) if before else None


def ask_directly(*hosts: str) -> None:
    """Has what this process asks of `hosts` go past a proxy that the environment names: as it starts, Gradio
    asks its own server, and gives up where a proxy answers.
    """
    before = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = ",".join(filter(None, [before, *hosts]))


def environment_variables() -> list[str]:
    """Names of the variables that `Settings` reads, for the README's table and its test."""
    return [f.metadata["env"] for f in fields(Settings) if "env" in f.metadata]


def _owner(env: Mapping[str, str]) -> str:
    """Who owns a Space on which one logs in at Hugging Face.

    Nobody where Gradio would only play a login, which gives every visitor the account of the machine, signed
    with a key that all know; nor where a login of our own lets in colleagues, who have all rights.
    """
    needed = ("SPACE_ID", "OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET", "OAUTH_SCOPES", "OPENID_PROVIDER_URL")
    if env.get("SYSTEM") != "spaces" or not all(env.get(name) for name in needed) or env.get("STUDIO_AUTH"):
        return ""
    return env.get("SPACE_AUTHOR_NAME") or env["SPACE_ID"].partition("/")[0]


def _home(env: Mapping[str, str], on_spaces: bool) -> Path:
    if env.get("STUDIO_HOME"):
        return Path(env["STUDIO_HOME"]).expanduser().resolve()
    if not on_spaces:
        return Path(platformdirs.user_data_dir("whisper-studio"))
    persistent = Path("/data")
    if os.access(persistent, os.W_OK):
        return persistent / "whisper-studio"
    return Path(tempfile.gettempdir()) / "whisper-studio"


def _hf_cache(env: Mapping[str, str]) -> Path:
    if env.get("HF_HUB_CACHE"):
        return Path(env["HF_HUB_CACHE"]).expanduser()
    hf_home = env.get("HF_HOME") or str(Path(env.get("XDG_CACHE_HOME", "~/.cache")) / "huggingface")
    return (Path(hf_home) / "hub").expanduser()


def _flag(env: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = env.get(name)
    if value is None:
        return default
    if value.strip().lower() in _TRUE | _FALSE:
        return value.strip().lower() in _TRUE
    raise ConfigError("{name}={value!r} is neither yes nor no: give 1 or 0.", name=name, value=value)


def _number(env: Mapping[str, str], name: str, default: float) -> float:
    value = env.get(name)
    if not value:
        return default
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ConfigError(
            "{name}={value!r} is not a number: give zero or a positive number.", name=name, value=value
        )
    return number


def _passwords(text: str) -> dict[str, str]:
    """Name → password of `name:password,name:password`.

    Raises:
        ConfigError: if it is something else, or a password has less than eight characters.
    """
    found: dict[str, str] = {}
    for pair in filter(None, text.split(",")):
        name, colon, password = pair.partition(":")
        if not name or not colon or len(password) < 8:
            raise ConfigError(
                "STUDIO_AUTH is name:password, several separated by commas, and a password has eight "
                "characters or more: entry {number} is something else.",
                number=len(found) + 1,
            )
        found[name] = password
    return found


def _api_key(text: str) -> str:
    """The key as it is sent.

    Raises:
        ConfigError: if it is too short, or no header can hold it.
    """
    key = text.strip()
    if key and not (len(key) >= 8 and key.isascii() and key.isprintable() and " " not in key):
        raise ConfigError(
            "STUDIO_API_KEY is a word of eight or more letters, digits and signs of ASCII: what is set is "
            "something else."
        )
    return key


def _port(env: Mapping[str, str]) -> int | None:
    value = env.get("GRADIO_SERVER_PORT")
    if not value:
        return None
    if not value.isdecimal() or not 0 < int(value) < 65536:
        raise ConfigError(
            "GRADIO_SERVER_PORT={value!r} is not a port: give a number from 1 to 65535.", value=value
        )
    return int(value)
