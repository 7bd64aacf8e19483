"""GPUs that people have, the one in this machine, and whether an estimate fits."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, TypeVar

from studio.errors import ConfigError
from studio.memory.plan import MemoryEstimate
from studio.options.checks import check_between
from studio.settings import visible_cards
from studio.units import GIB, MIB, parse_bytes

T = TypeVar("T")
GpuKind = Literal["consumer", "workstation", "datacenter"]
Verdict = Literal["fits", "tight", "does_not_fit"]

LARGEST_MEMORY_GIB = 100_000
_MOST_BARE_GIB = 1000
"""A larger number without a unit is one of MiB, as drivers and Slurm print them."""
_SEVERAL = re.compile(r"\s*(\d{1,2})\s*[x×*]\s*(.+)|\s*(.+?)\s*[x×*]\s*(\d{1,2})\s*", re.IGNORECASE)
"""`2x A100` and `A100 x2`."""
_DRIVER_SHARE, _DRIVER_MOST_BYTES = 0.02, 900 * MIB
"""What the driver keeps of a card and gives to no program: 0.26 of 15 GiB (T4), 0.46 of 22.5 (L4), 0.47 of
79.6 (H100), 0.8 of 80 (A100)."""
_DESKTOP_BYTES = GIB // 2
"""What a screen and its programs hold on a card that drives one."""


@dataclass(frozen=True)
class Gpu:
    """One kind of card, or one card of this machine."""

    name: str
    memory_bytes: int
    """In all, about what the driver reports."""
    kind: GpuKind
    architecture: str
    free_bytes: int | None = None
    """Only of a card in this machine: what other programs leave."""
    index: int | None = None
    """Only of a card in this machine."""

    @property
    def has_bf16(self) -> bool:
        """Whether it computes in bf16 (Ampere and later); older cards take fp16."""
        return self.architecture not in ("Pascal", "Volta", "Turing")


def _gpu(name: str, mebibytes: int, kind: GpuKind, architecture: str) -> Gpu:
    return Gpu(name, mebibytes * MIB, kind, architecture)


GPUS: tuple[Gpu, ...] = (
    _gpu("GeForce GTX 1080 Ti", 11264, "consumer", "Pascal"),
    _gpu("GeForce RTX 2060", 6144, "consumer", "Turing"),
    _gpu("GeForce RTX 2080 Ti", 11264, "consumer", "Turing"),
    _gpu("GeForce RTX 3060", 12288, "consumer", "Ampere"),
    _gpu("GeForce RTX 3060 Ti", 8192, "consumer", "Ampere"),
    _gpu("GeForce RTX 3070", 8192, "consumer", "Ampere"),
    _gpu("GeForce RTX 3080 10 GB", 10240, "consumer", "Ampere"),
    _gpu("GeForce RTX 3080 12 GB", 12288, "consumer", "Ampere"),
    _gpu("GeForce RTX 3080 Ti", 12288, "consumer", "Ampere"),
    _gpu("GeForce RTX 3090", 24576, "consumer", "Ampere"),
    _gpu("GeForce RTX 3090 Ti", 24564, "consumer", "Ampere"),
    _gpu("GeForce RTX 4060", 8188, "consumer", "Ada"),
    _gpu("GeForce RTX 4060 Ti 8 GB", 8188, "consumer", "Ada"),
    _gpu("GeForce RTX 4060 Ti 16 GB", 16380, "consumer", "Ada"),
    _gpu("GeForce RTX 4070", 12282, "consumer", "Ada"),
    _gpu("GeForce RTX 4070 Super", 12282, "consumer", "Ada"),
    _gpu("GeForce RTX 4070 Ti", 12282, "consumer", "Ada"),
    _gpu("GeForce RTX 4070 Ti Super", 16376, "consumer", "Ada"),
    _gpu("GeForce RTX 4080", 16376, "consumer", "Ada"),
    _gpu("GeForce RTX 4080 Super", 16376, "consumer", "Ada"),
    _gpu("GeForce RTX 4090", 24564, "consumer", "Ada"),
    _gpu("GeForce RTX 5060 Ti 8 GB", 8151, "consumer", "Blackwell"),
    _gpu("GeForce RTX 5060 Ti 16 GB", 16311, "consumer", "Blackwell"),
    _gpu("GeForce RTX 5070", 12227, "consumer", "Blackwell"),
    _gpu("GeForce RTX 5070 Ti", 16303, "consumer", "Blackwell"),
    _gpu("GeForce RTX 5080", 16303, "consumer", "Blackwell"),
    _gpu("GeForce RTX 5090", 32607, "consumer", "Blackwell"),
    _gpu("RTX A4000", 16376, "workstation", "Ampere"),
    _gpu("RTX A5000", 24564, "workstation", "Ampere"),
    _gpu("RTX A6000", 49140, "workstation", "Ampere"),
    _gpu("RTX 4000 Ada", 20475, "workstation", "Ada"),
    _gpu("RTX 6000 Ada", 49140, "workstation", "Ada"),
    _gpu("RTX PRO 6000 Blackwell", 97887, "workstation", "Blackwell"),
    _gpu("P100", 16384, "datacenter", "Pascal"),
    _gpu("V100 16 GB", 16384, "datacenter", "Volta"),
    _gpu("V100 32 GB", 32768, "datacenter", "Volta"),
    _gpu("T4", 15360, "datacenter", "Turing"),
    _gpu("A10", 23028, "datacenter", "Ampere"),
    _gpu("A10G", 23028, "datacenter", "Ampere"),
    _gpu("A30", 24576, "datacenter", "Ampere"),
    _gpu("A40", 46068, "datacenter", "Ampere"),
    _gpu("A100 40 GB", 40960, "datacenter", "Ampere"),
    _gpu("A100 80 GB", 81920, "datacenter", "Ampere"),
    _gpu("L4", 23034, "datacenter", "Ada"),
    _gpu("L40", 46068, "datacenter", "Ada"),
    _gpu("L40S", 46068, "datacenter", "Ada"),
    _gpu("H100 80 GB", 81559, "datacenter", "Hopper"),
    _gpu("H100 NVL", 95830, "datacenter", "Hopper"),
    _gpu("H200", 143771, "datacenter", "Hopper"),
    _gpu("B200", 183359, "datacenter", "Blackwell"),
    _gpu("MI300X", 196592, "datacenter", "CDNA 3"),
)
"""Those that are listed."""
MORE_GPUS: tuple[Gpu, ...] = (
    _gpu("GeForce GTX 1060", 6144, "consumer", "Pascal"),
    _gpu("GeForce GTX 1070", 8192, "consumer", "Pascal"),
    _gpu("GeForce GTX 1080", 8192, "consumer", "Pascal"),
    _gpu("GeForce GTX 1650", 4096, "consumer", "Turing"),
    _gpu("GeForce GTX 1660 Super", 6144, "consumer", "Turing"),
    _gpu("GeForce GTX 1660 Ti", 6144, "consumer", "Turing"),
    _gpu("GeForce RTX 2060 Super", 8192, "consumer", "Turing"),
    _gpu("GeForce RTX 2070", 8192, "consumer", "Turing"),
    _gpu("GeForce RTX 2070 Super", 8192, "consumer", "Turing"),
    _gpu("GeForce RTX 2080", 8192, "consumer", "Turing"),
    _gpu("GeForce RTX 2080 Super", 8192, "consumer", "Turing"),
    _gpu("TITAN RTX", 24576, "consumer", "Turing"),
    _gpu("GeForce RTX 3050 6 GB", 6144, "consumer", "Ampere"),
    _gpu("GeForce RTX 3050 8 GB", 8192, "consumer", "Ampere"),
    _gpu("GeForce RTX 3050 Laptop", 4096, "consumer", "Ampere"),
    _gpu("GeForce RTX 3060 Laptop", 6144, "consumer", "Ampere"),
    _gpu("GeForce RTX 3070 Ti", 8192, "consumer", "Ampere"),
    _gpu("GeForce RTX 3070 Laptop", 8192, "consumer", "Ampere"),
    _gpu("GeForce RTX 3070 Ti Laptop", 8192, "consumer", "Ampere"),
    _gpu("GeForce RTX 3080 Laptop 8 GB", 8192, "consumer", "Ampere"),
    _gpu("GeForce RTX 3080 Laptop 16 GB", 16384, "consumer", "Ampere"),
    _gpu("GeForce RTX 3080 Ti Laptop", 16384, "consumer", "Ampere"),
    _gpu("GeForce RTX 4050 Laptop", 6141, "consumer", "Ada"),
    _gpu("GeForce RTX 4060 Laptop", 8188, "consumer", "Ada"),
    _gpu("GeForce RTX 4070 Laptop", 8188, "consumer", "Ada"),
    _gpu("GeForce RTX 4080 Laptop", 12282, "consumer", "Ada"),
    _gpu("GeForce RTX 4090 D", 24564, "consumer", "Ada"),
    _gpu("GeForce RTX 4090 Laptop", 16376, "consumer", "Ada"),
    _gpu("GeForce RTX 5050", 8151, "consumer", "Blackwell"),
    _gpu("GeForce RTX 5060", 8151, "consumer", "Blackwell"),
    _gpu("GeForce RTX 5060 Laptop", 8151, "consumer", "Blackwell"),
    _gpu("GeForce RTX 5070 Laptop", 8151, "consumer", "Blackwell"),
    _gpu("GeForce RTX 5070 Ti Laptop", 12227, "consumer", "Blackwell"),
    _gpu("GeForce RTX 5080 Laptop", 16303, "consumer", "Blackwell"),
    _gpu("GeForce RTX 5090 D", 32607, "consumer", "Blackwell"),
    _gpu("GeForce RTX 5090 Laptop", 24463, "consumer", "Blackwell"),
    _gpu("Quadro RTX 6000", 24576, "workstation", "Turing"),
    _gpu("Quadro RTX 8000", 49152, "workstation", "Turing"),
    _gpu("RTX A2000 6 GB", 6138, "workstation", "Ampere"),
    _gpu("RTX A2000 12 GB", 12282, "workstation", "Ampere"),
    _gpu("RTX A4500", 20470, "workstation", "Ampere"),
    _gpu("RTX A5500", 24564, "workstation", "Ampere"),
    _gpu("RTX 2000 Ada", 16380, "workstation", "Ada"),
    _gpu("RTX 4500 Ada", 24570, "workstation", "Ada"),
    _gpu("RTX 5000 Ada", 32760, "workstation", "Ada"),
    _gpu("RTX PRO 4000 Blackwell", 24467, "workstation", "Blackwell"),
    _gpu("RTX PRO 4500 Blackwell", 32623, "workstation", "Blackwell"),
    _gpu("RTX PRO 5000 Blackwell", 48935, "workstation", "Blackwell"),
    _gpu("P4", 7680, "datacenter", "Pascal"),
    _gpu("P40", 23040, "datacenter", "Pascal"),
    _gpu("A2", 15356, "datacenter", "Ampere"),
    _gpu("A16", 15356, "datacenter", "Ampere"),
    _gpu("A800 80 GB", 81920, "datacenter", "Ampere"),
    _gpu("L20", 46068, "datacenter", "Ada"),
    _gpu("H20", 97871, "datacenter", "Hopper"),
    _gpu("H800", 81559, "datacenter", "Hopper"),
    _gpu("GH200", 97871, "datacenter", "Hopper"),
    _gpu("H200 NVL", 143771, "datacenter", "Hopper"),
    _gpu("MI325X", 262128, "datacenter", "CDNA 3"),
)
"""Those that are found by their names alone, so that lists stay short."""
_ALL = (*GPUS, *MORE_GPUS)


_MEMORY = re.compile(r" (\d+) GB$")
_SIZE = re.compile(r"(?:([1-9]\d*)gi?b?)?")
_NOT_PART_OF_A_NAME = re.compile(
    r"\b(nvidia|tesla|amd|instinct|gpu|pcie|sxm\d?|oam|hbm\d?e?|gddr\d?x?|blackwell|generation|vram|colab|kaggle"
    r"|(max q )?(server|workstation|founders) edition)\b"
)


def find_gpu(name: str) -> Gpu | None:
    """The row of the table that people mean by `name`; of several sizes, the smallest."""
    called = _called(name)
    return next((gpu for gpu, size in called if size is None or _has_size(gpu, size)), None)


def read_otherwise(name: str) -> str:
    """The sentence about a name without the memory that its card comes with; empty of a single size."""
    guessed = [gpu.name for gpu, size in _called(name) if size is None and _MEMORY.search(gpu.name)]
    if len(guessed) < 2:
        return ""
    others = ", ".join(guessed[1:])
    return f"The GPU {name.strip()} is taken for {guessed[0]} (there is also {others})."


def _called(name: str) -> list[tuple[Gpu, int | None]]:
    """Rows of the table that are called so, the smallest memory first, with the size that stands behind."""
    wanted = _key(name)
    found: list[tuple[Gpu, int | None]] = []
    for gpu in sorted(_ALL, key=lambda gpu: gpu.memory_bytes):
        for spelling in _spellings(gpu.name):
            if wanted.startswith(spelling) and (size := _SIZE.fullmatch(wanted, len(spelling))):
                found.append((gpu, int(size[1]) if size[1] else None))
    return found


def _has_size(gpu: Gpu, size: int) -> bool:
    """Whether a card is sold with so many GB: in its driver's figure, GB are GiB or a little less."""
    return round(gpu.memory_bytes / GIB) <= size <= round(gpu.memory_bytes / 1e9)


def _spellings(name: str) -> list[str]:
    """`GeForce RTX 4090` → geforcertx4090, rtx4090, 4090: what a card is called, without its memory."""
    words = _MEMORY.sub("", name).split()
    keys = [_key(" ".join(words[start:])) for start in range(len(words))]
    # 4090 is a card, and 8000 may be MiB.
    return [key for key in keys if re.search(r"\d|titan", key) and (not key.isdigit() or "GeForce" in name)]


def _key(name: str) -> str:
    """`NVIDIA A100-SXM4-80GB` → a10080gb."""
    plain = unicodedata.normalize("NFKC", name).casefold().replace("mobile", "laptop")
    return _NOT_PART_OF_A_NAME.sub(" ", re.sub(r"[^a-z0-9]", " ", plain)).replace(" ", "")


def card(text: str, memory_gib: float = 0) -> Gpu | None:
    """The GPU meant: a size in GiB if one is given, else a card of this machine or of the table, or a size in
    words such as `24GiB`. Without a text, the first card of this machine; None if it has none.

    A size that somebody gives counts as free: nothing is taken off for a screen.

    Raises:
        ConfigError: if nobody knows it, or the size is none.
    """
    if memory_gib:
        check_between("memory_gib", memory_gib, 0, LARGEST_MEMORY_GIB)
        return Gpu(f"{round(memory_gib, 2):g} GiB", round(memory_gib * GIB), "datacenter", "")
    here = detected_gpus()
    if not text.strip():
        return here[0] if here else None
    named = next((gpu for gpu in here if gpu.name == text), None) or find_gpu(text)
    if named is not None:
        return named
    try:
        size = parse_bytes(_NOT_PART_OF_A_NAME.sub(" ", text.casefold()))
    except ConfigError:
        _refuse_several(text)
        if called := _called(text):
            sizes = dict.fromkeys(f"{gpu.memory_bytes / GIB:.0f}" for gpu, _ in called)
            raise ConfigError(
                "There is no GPU {text!r} in the table: {card} has {sizes} GiB. Give that, or only the "
                "memory, such as 24GiB.",
                name="gpu",
                text=text,
                card=_MEMORY.sub("", called[0][0].name),
                sizes=" / ".join(sizes),
            ) from None
        names = {spelling: gpu.name for gpu in _ALL for spelling in _spellings(gpu.name)}
        close = dict.fromkeys(names[key] for key in get_close_matches(_key(text), names, n=6, cutoff=0.5))
        raise ConfigError(
            "There is no GPU {text!r} in the table: give its memory, such as 24GiB, or a name: {names}.",
            name="gpu",
            text=text,
            names=", ".join([*close][:3] or ["GeForce RTX 3060", "GeForce RTX 4090", "A100 80 GB"]),
        ) from None
    if not size:
        raise ConfigError(
            "{text!r} is no memory of a GPU: give its name, or its memory, such as 24GiB.",
            name="gpu",
            text=text,
        )
    if text.strip()[-1].isdigit() and size > _MOST_BARE_GIB * GIB:
        raise ConfigError(
            "{size} GiB is more than any GPU has: write {size}MiB if that is meant.",
            name="gpu",
            size=text.strip(),
        )
    return card("", size / GIB)


def _refuse_several(text: str) -> None:
    """Says so where `text` names a card and how many there are of it."""
    if not (several := _SEVERAL.fullmatch(text)):
        return
    try:
        one = card(several[2] or several[3])
    except ConfigError:
        return
    raise ConfigError(
        "{text!r} is several cards: name one, {card}, and for a run give num_processes {count}.",
        name="gpu",
        text=text,
        card=one.name if one else "",
        count=several[1] or several[4],
    ) from None


def usable_bytes(gpu: Gpu) -> int:
    """What a program may take: what is free on a card of this machine; of one of the table all but the
    driver's share and a screen's; all of a size that somebody gives.
    """
    if gpu.free_bytes is not None:
        return gpu.free_bytes
    if not gpu.architecture:
        return gpu.memory_bytes
    driver = min(round(_DRIVER_SHARE * gpu.memory_bytes), _DRIVER_MOST_BYTES)
    return gpu.memory_bytes - driver - (0 if gpu.kind == "datacenter" else _DESKTOP_BYTES)


def verdict(estimate: MemoryEstimate, usable: int) -> Verdict:
    """`fits` only if even the high end of the range does; `tight` if the middle of it does."""
    if estimate.high_bytes <= usable:
        return "fits"
    return "tight" if estimate.device_bytes <= usable else "does_not_fit"


def detected_gpus() -> list[Gpu]:
    """The NVIDIA cards of this machine with what is free on them; empty without a card or driver."""
    return of_each_card(_detected)


def present_architecture() -> str:
    """Of the card of this machine that is used first; empty without one."""
    return next((gpu.architecture for gpu in detected_gpus()), "")


def driver_version() -> str:
    """Of NVIDIA's driver; empty without one."""
    return ask_driver(lambda driver: str(driver.nvmlSystemGetDriverVersion()), "")


def ask_driver(question: Callable[[Any], T], otherwise: T) -> T:
    """What `question` finds out from NVIDIA's driver (`pynvml`); `otherwise` without one, or if it does not
    tell. Nothing is allocated.
    """
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return otherwise
    try:
        return question(pynvml)
    except pynvml.NVMLError:
        return otherwise
    finally:
        pynvml.nvmlShutdown()


def of_each_card(ask: Callable[[Any, int], T]) -> list[T]:
    """What `ask` finds out from the driver about each card, by its number; without those that do not tell."""

    def told(driver: Any) -> list[T]:
        """Of one card after the other."""
        found = []
        for index in cards_of(driver):
            with suppress(driver.NVMLError):
                found.append(ask(driver, index))
        return found

    return ask_driver(told, [])


def cards_of(driver: Any) -> Sequence[int]:
    """The driver's numbers of the cards that CUDA may use, the one that is used first at the beginning.

    As in CUDA, those named behind an unknown one do not count. Parts of a card (MIG) are not told apart.
    """
    cards, named = range(driver.nvmlDeviceGetCount()), visible_cards()
    if named is None or named[0].startswith("MIG-"):
        return cards
    ids = {str(card): card for card in cards}
    if any(name.startswith("GPU-") for name in named):
        ids |= {driver.nvmlDeviceGetUUID(driver.nvmlDeviceGetHandleByIndex(card)): card for card in cards}
    found: list[int] = []
    for name in named:
        card = next((card for id_, card in ids.items() if _names(name, id_)), None)
        if card is None:
            break
        found.append(card)
    return found


def _names(name: str, id_: str) -> bool:
    """Whether a name is a card's; the beginning of a long id is enough."""
    return name == id_ or (name.startswith("GPU-") and id_.startswith(name))


def name_of(driver: Any, handle: Any) -> str:
    """A card's name, as the table of GPUs writes it."""
    return str(driver.nvmlDeviceGetName(handle)).removeprefix("NVIDIA ").strip()


def _detected(driver: Any, index: int) -> Gpu:
    handle = driver.nvmlDeviceGetHandleByIndex(index)
    memory = driver.nvmlDeviceGetMemoryInfo(handle)
    major, minor = driver.nvmlDeviceGetCudaComputeCapability(handle)
    name = name_of(driver, handle)
    known = find_gpu(name)
    return Gpu(
        name=name,
        memory_bytes=int(memory.total),
        kind=known.kind if known else "consumer" if "GeForce" in name else "datacenter",
        architecture=_architecture(major, minor),
        free_bytes=int(memory.free),
        index=index,
    )


def _architecture(major: int, minor: int) -> str:
    """Name of a compute capability."""
    if (major, minor) == (7, 5):
        return "Turing"
    if (major, minor) == (8, 9):
        return "Ada"
    return {6: "Pascal", 7: "Volta", 8: "Ampere", 9: "Hopper"}.get(
        major, "Blackwell" if major > 9 else "Pascal"
    )
