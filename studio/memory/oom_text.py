"""What an error or a log says of memory, in the words of PyTorch, the system, cuBLAS, cuDNN, bitsandbytes."""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from studio.units import KIB, parse_bytes

LONGEST_TEXT = 400_000
"""Characters that are read, from the end: a log's last lines tell why it ended."""
_LONGEST_TRACE = 20_000
_MOST_HELD = 2**50
"""More is what a driver says that does not know."""
_REACH = 1600
"""Characters after the first words of a message in which its figures stand."""


class OomKind(StrEnum):
    """Whose memory was short, and who said so."""

    GPU = "gpu"
    """The allocator of PyTorch, CTranslate2 or the driver."""
    LIBRARY = "library"
    """cuBLAS, cuDNN or Level Zero could not get its workspace."""
    BITSANDBYTES = "bitsandbytes"
    """Quantised weights or a paged optimizer found no room."""
    BITSANDBYTES_SETUP = "bitsandbytes_setup"
    """Not memory: bitsandbytes cannot use the GPU."""
    CPU = "cpu"
    """An allocation in the machine's own memory failed."""
    SHARED = "shared"
    """Processes that read audio found no shared memory."""
    KILLED = "killed"
    """The system ended a process to get memory back."""
    TIME = "time"
    """Not memory: the scheduler ended the job, whose time was over or whose place was wanted."""
    INDEX = "index"
    """Not memory: a check within a kernel failed."""
    VERSIONS = "versions"
    """Not memory: two versions of cuDNN in one process."""
    UNKNOWN = "unknown"

    @property
    def is_memory(self) -> bool:
        """Whether memory is what the text speaks of, or what bitsandbytes saves of it."""
        return self not in (OomKind.TIME, OomKind.INDEX, OomKind.VERSIONS, OomKind.UNKNOWN)

    @property
    def is_of_gpu(self) -> bool:
        """Whether the GPU's memory was short."""
        return self in (OomKind.GPU, OomKind.LIBRARY, OomKind.BITSANDBYTES)


@dataclass(frozen=True)
class Holder:
    """A process and what it holds on the GPU."""

    pid: int
    held_bytes: int


@dataclass(frozen=True)
class OomReport:
    """Figures of a message; None where it has none."""

    kind: OomKind
    is_certain: bool = True
    """False for errors that libraries report for want of memory, but not only then."""
    asked_bytes: int | None = None
    free_bytes: int | None = None
    total_bytes: int | None = None
    allowed_bytes: int | None = None
    """A limit that was set for this process."""
    allocated_bytes: int | None = None
    """Tensors of this process."""
    reserved_bytes: int | None = None
    """With what its allocator keeps."""
    process_bytes: int | None = None
    """All that this process holds, with its CUDA context."""
    holders: tuple[Holder, ...] = ()
    """Other processes, as far as the message names them."""
    gpu_index: int | None = None
    gpus: tuple[int, ...] = ()
    """All that ran out, where there are several messages."""
    allocator_setting: str = ""
    """The variable that sets the allocator, as the message calls it: its name depends on version and GPU."""
    tool: str = "nvidia-smi"
    """What lists the processes on the GPU."""
    is_transcribing: bool = False
    """Whether CTranslate2 or whisper.cpp says so, which train nothing."""
    words: str = ""
    """The line that was recognised."""
    trace: str = field(default="", repr=False)
    """What was read: the frames that led to it."""


_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
"""Colours, and links of a terminal."""
_LINE_START = re.compile(r"^(?:\[(?:rank|default)\d{1,5}\]: ?| {0,5}\d{1,5}: |│ ?){1,2}", re.MULTILINE)
"""What torchrun, `srun --label` and a frame put before each line."""


def _wrapped(pattern: str) -> re.Pattern[str]:
    """As it matches where a terminal or a logger has broken the line at any space."""
    return re.compile(pattern.replace(" ", r"(?:\s{1,40})"))


_SIZE = r"(\d{1,20}(?:\.\d{1,20})?) ?(bytes|[KMGT]i?B)\b"
_BACKENDS = "CUDA|HIP|XPU|NPU|MLU|MUSA"
_GPU_MESSAGE = _wrapped(
    rf"(?:(?:{_BACKENDS}|MPS backend) out of memory(?s:.){{0,200}}?[Tt]ried to allocate"
    r"|Allocation on device [^\n]{0,80}\nCurrently allocated[^\n]{0,80}\nRequested\s{0,20}:) " + _SIZE
)
"""Of PyTorch's allocators; cudaMallocAsync lists its figures."""
_FIGURES = {
    "total_bytes": (
        rf"{_SIZE} total capacity",
        rf"total capac\w+ of {_SIZE}",
        rf"max allowed: {_SIZE}",
        rf"Device limit *: {_SIZE}",
    ),
    "free_bytes": (
        rf"of which {_SIZE} is free",
        rf"{_SIZE} free\b",
        rf"Free \(according to CUDA\) *: {_SIZE}",
    ),
    "allowed_bytes": (rf"{_SIZE} allowed\b",),
    "allocated_bytes": (
        rf"{_SIZE} already allocated",
        rf"{_SIZE} is allocated by PyTorch",
        rf"MPS allocated: {_SIZE}",
        rf"Currently allocated *: {_SIZE}",
    ),
    "reserved_bytes": (rf"{_SIZE} reserved in total by PyTorch",),
    "process_bytes": (rf"this process has {_SIZE} memory in use",),
}
_UNALLOCATED = (rf"{_SIZE} is reserved by PyTorch but unallocated", rf"{_SIZE} cached\b")
_SETTINGS = {name: f"PYTORCH_{name}_ALLOC_CONF" for name in ("CUDA", "HIP", "NPU")}
"""Where a message names none; other allocators have no such setting."""
_TOOLS = {"HIP": "rocm-smi", "XPU": "xpu-smi", "NPU": "npu-smi", "MLU": "cnmon", "MUSA": "mthreads-gmi"}
_HOLDER = re.compile(rf"Process (\d+) has {_SIZE} memory in use")
_GPU_INDEX = _wrapped(r"\b(?:GPU|NPU|MLU|MUSA) (\d{1,5})(?:;| has)")
_CPU_BYTES = _wrapped(r"DefaultCPUAllocator: (?s:.){0,200}?tr(?:ied|ying) to allocate (\d{1,20}) bytes")
_NUMPY_BYTES = _wrapped(rf"Unable to allocate {_SIZE} for an array")
_KILLED_RSS = re.compile(r"Killed process \d+[^\n]{0,300}?anon-rss:(\d{1,20})kB")

_RUST_BYTES = _wrapped(r"memory allocation of (\d{1,20}) bytes failed")
_CERTAIN = re.compile(r"_ALLOC_FAILED|AllocFailed|memory_error|DEVICE_ALLOCATION_FAILED")
_TRANSCRIBERS = re.compile(
    r"CUDA failed with|cuBLAS failed with|faster_whisper|ctranslate2|ggml|whisper_init"
)

_SIGNS: tuple[tuple[OomKind, re.Pattern[str]], ...] = (
    # After these two, cuBLAS and cuDNN fail as they do for want of memory.
    (
        OomKind.INDEX,
        re.compile(r"device-side assert triggered|cudaErrorAssert|Assertion [^\n]{1,200}? failed"),
    ),
    (
        OomKind.VERSIONS,
        re.compile(r"cuDNN version incompatibility|CUDNN_STATUS_\w{0,40}VERSION_MISMATCH"),
    ),
    (
        OomKind.BITSANDBYTES,
        re.compile(
            r"(?:Error|CUDA error:)(?: \d+)? (?:out of memory|invalid (?:configuration )?argument) at "
            r"line \d+ in file|"
            r"Some modules are dispatched on the CPU or the disk|cublasLt ran into an error"
        ),
    ),
    (
        OomKind.LIBRARY,
        re.compile(
            r"(?:CU|HIP)BLAS_STATUS_(?:ALLOC_FAILED|NOT_INITIALIZED)|"
            r"CUDNN_STATUS_(?:ALLOC_FAILED|NOT_INITIALIZED|INTERNAL_ERROR(?!_HOST))|"
            r"Unable to find a valid cuDNN algorithm|was unable to find an engine to execute|"
            r"CU(?:SOLVER|SPARSE)_STATUS_ALLOC_FAILED|CUFFT_ALLOC_FAILED|miopenStatusAllocFailed|"
            r"rocblas_status_memory_error|(?:UR_RESULT|PI)_ERROR_OUT_OF_RESOURCES|HSA_STATUS_ERROR_OUT_OF_RESOURCES"
        ),
    ),
    (
        OomKind.GPU,
        re.compile(
            rf"\b(?:{_BACKENDS}|C[Uu][Dd][Aa]|MPS backend)\b[^\n]{{0,120}}? '?out of memory|"
            r"(?:cuda|hip)ErrorMemoryAllocation|hipErrorOutOfMemory|cudaMalloc failed: out of memory|"
            r"UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY|cuda runtime error \(2\)|CUDA_ERROR_OUT_OF_MEMORY|"
            r"NVML_SUCCESS == r [^\n]{1,80}CUDACachingAllocator|No executable batch size found|"
            r"kIOGPUCommandBufferCallbackErrorOutOfMemory|E(?:RROR_OUT_OF_DEVICE_MEMORY|rrorOutOfDeviceMemory)|"
            r"not enough GPU video memory|"
            r"Invalid buffer size: [\d.]{1,20} [KMGT]i?B|torch\.(?:cuda\.)?OutOfMemoryEr"
        ),
    ),
    (
        OomKind.SHARED,
        re.compile(
            r"insufficient shared memory \(shm\)|unable to (?:open|mmap)[^\n]{0,200}shared memory|Bus error|"
            r"unable to (?:mmap \d+ bytes from|write to) file </torch_|unable to allocate shared memory|"
            r"creating shared memory segment|No space left on device[^\n]{0,20}/dev/shm"
        ),
    ),
    (
        OomKind.CPU,
        _wrapped(
            r"DefaultCPUAllocator|memory allocation of \d{1,20} bytes failed|"
            r"Unable to allocate [\d.]+ \w+ for an array|"
            r"\[Errno 12\] Cannot allocate memory|fork: Cannot allocate memory|\[WinError (?:8|14|1455)\]|"
            r"os error (?:12|1455)\b|paging file is too small|error code: <1455>|std::bad_alloc|"
            r": bad allocation|mkl_malloc: failed to allocate|HOST_ALLOCATION_FAILED|"
            r"(?m:^)(?:\w+\.)*_?(?:Array)?MemoryError\b"
        ),
    ),
    # Such a job is killed, too.
    (
        OomKind.TIME,
        re.compile(r"DUE TO (?:TIME LIMIT|PREEMPTION)|^State: (?:TIMEOUT|PREEMPTED)\b", re.MULTILINE),
    ),
    (
        OomKind.KILLED,
        re.compile(
            r"^[ \t]*(?:\d[\w:.,+-]{7,34}[ \t]+){0,2}Killed[ \t]*$|(?:: +\d+|\bsh: \d+:) Killed\b|"
            r"zsh: killed|Kill(?:ed)? process \d+|^[ \t]*已(?:杀死|砍掉)|\d 已(?:杀死|砍掉)|"
            r"oom[-_]kill|OOM ?Killed|\b(?:systemd-oomd|earlyoom)\b|low on resource: memory|"
            r"after using all available RAM|allocate more memory than is available|"
            r"\b[Ee]rror (?:code )?137\b|SIGKILL|signal: Killed|[Ss]ignal 9\b|\bKilled: 9\b|"
            r"^\[\d{1,5}\][ +-]{1,8}\d{1,10} killed\b|"
            r"\btasks? [\d,-]{1,99}: (?:Killed|Out Of Memory)|\bOUT_OF_ME(?:MORY\b|\+)|"
            r"Exceeded (?:job|step) memory limit|return ?code\s{0,8}[:=]?\s{0,8}(?:-9|137)\b|"
            r"[Ee]xit(?:ed)?(?: with)?[ _]?(?:[Cc]ode|status|value)?\s{0,8}[:=(]?\s{0,8}(?:-9|137)\b",
            re.MULTILINE,
        ),
    ),
    (
        OomKind.BITSANDBYTES_SETUP,
        re.compile(
            r"bitsandbytes was compiled without GPU support|CUDA Setup failed despite GPU|"
            r"libbitsandbytes\w*\.so: cannot open|"
            r"(?:requires|needs?|using) [^\n]{0,60}bitsandbytes[^\n]{0,80}(?:install|version)|"
            r"No package metadata was found for bitsandbytes|No module named 'bitsandbytes'"
        ),
    ),
)


def read_report(text: str) -> OomReport:
    """The figures of the first message about memory in `text`; of kind UNKNOWN if there is none."""
    text = _plain(text[-LONGEST_TEXT:])
    messages = list(_GPU_MESSAGE.finditer(text))
    if messages:
        return _gpu_report(text, messages)
    for kind, sign in _SIGNS:
        found = sign.search(text)
        if found:
            return _other_report(kind, text, found)
    return OomReport(OomKind.UNKNOWN)


def _plain(text: str) -> str:
    """Without what terminals, launchers and frames add to the lines of a program."""
    text = _ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _LINE_START.sub("", text).replace("│", " ")


def _gpu_report(text: str, messages: list[re.Match[str]]) -> OomReport:
    first = messages[0]
    end = messages[1].start() if len(messages) > 1 else len(text)
    whole = " ".join(text[first.start() : min(end, first.start() + _REACH)].split())
    figures: dict[str, Any] = {name: _first(patterns, whole) for name, patterns in _FIGURES.items()}
    unallocated = _first(_UNALLOCATED, whole)
    if figures["reserved_bytes"] is None and unallocated is not None:
        figures["reserved_bytes"] = (figures["allocated_bytes"] or 0) + unallocated
    holders = _holders(whole, figures["total_bytes"])
    if (figures["process_bytes"] or 0) > _MOST_HELD:
        figures["process_bytes"] = None
    if figures["process_bytes"] is None:
        # In a container a process does not know its own number: it is the one that holds what PyTorch does.
        ours = _ours(holders, figures["reserved_bytes"])
        figures["process_bytes"] = ours.held_bytes if ours else None
        holders = tuple(holder for holder in holders if holder is not ours)
    gpus = sorted({int(number) for number in _GPU_INDEX.findall(text)})
    index = re.search(r"\b(?:[GN]PU|MLU|MUSA|Allocation on device) (\d{1,5})\b", whole)
    setting = re.search(r"PYTORCH_(?:[A-Z]+_)?ALLOC_CONF", whole)
    return OomReport(
        kind=OomKind.GPU,
        asked_bytes=_bytes(first[1], first[2]),
        holders=holders,
        gpu_index=int(index[1]) if index else None,
        gpus=tuple(gpus),
        allocator_setting=setting[0] if setting else _SETTINGS.get(whole.split()[0], ""),
        tool=_TOOLS.get(whole.split()[0], OomReport.tool),
        words=_line(text, first.start()),
        trace=_trace(text, first.start()),
        **figures,
    )


def _other_report(kind: OomKind, text: str, found: re.Match[str]) -> OomReport:
    asked = held = None
    if cpu := _CPU_BYTES.search(text):
        asked = int(cpu[1])
    elif numpy := _NUMPY_BYTES.search(text):
        asked = _bytes(numpy[1], numpy[2])
    elif rust := _RUST_BYTES.search(text):
        asked = int(rust[1])
    if rss := _KILLED_RSS.search(text):
        held = int(rss[1]) * KIB
    words, trace = _line(text, found.start()), _trace(text, found.start())
    return OomReport(
        kind=kind,
        is_certain=kind is not OomKind.LIBRARY or _CERTAIN.search(text) is not None,
        asked_bytes=asked,
        process_bytes=held,
        is_transcribing=_TRANSCRIBERS.search(f"{trace}\n{words}") is not None,
        words=words,
        trace=trace,
    )


def _holders(whole: str, total: int | None) -> tuple[Holder, ...]:
    """Processes with what they hold; a driver that does not know says 17179869184 GiB, which is left out."""
    found = [Holder(int(row[1]), _bytes(row[2], row[3])) for row in _HOLDER.finditer(whole)]
    return tuple(row for row in found if row.held_bytes <= (total if total is not None else _MOST_HELD))


def _ours(holders: tuple[Holder, ...], reserved: int | None) -> Holder | None:
    likely = [row for row in holders if reserved is not None and row.held_bytes >= 0.98 * reserved]
    return min(likely, key=lambda row: row.held_bytes, default=None)


def _first(patterns: tuple[str, ...], text: str) -> int | None:
    for pattern in patterns:
        if found := re.search(pattern, text):
            return _bytes(found[1], found[2])
    return None


def _bytes(number: str, unit: str) -> int:
    """PyTorch means MiB and GiB, though it writes MB and GB for MPS."""
    return parse_bytes(f"{number} {'B' if unit == 'bytes' else f'{unit[0]}iB'}")


def _trace(text: str, place: int) -> str:
    """The frames before a message: from the traceback that it ends."""
    before = text[max(0, place - _LONGEST_TRACE) : place]
    start = before.rfind("Traceback (most recent call last)")
    return before[start:] if start >= 0 else ""


def _line(text: str, place: int) -> str:
    start = text.rfind("\n", 0, place + 1) + 1
    end = text.find("\n", max(place, start))
    return text[start : end if end >= 0 else len(text)].strip()[:400]
