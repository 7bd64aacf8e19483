"""Errors and logs as people paste them: what they say is read, whatever wrote them."""

import textwrap
import time
from dataclasses import replace

import pytest

from studio.memory.oom import explain
from studio.memory.oom_text import Holder, OomKind, OomReport, read_report
from studio.memory.plan import Part, TrainingPlan
from studio.memory.training import estimate_training
from studio.registry.catalog import find_released
from studio.units import GIB, MIB

PYTORCH_1_3 = (
    "RuntimeError: CUDA out of memory. Tried to allocate 50.00 MiB (GPU 1; 10.76 GiB total capacity; 9.58 "
    "GiB already allocated; 15.56 MiB free; 64.00 MiB cached)"
)
PYTORCH_1_12 = (
    "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.76 GiB total capacity; 9.58 "
    "GiB already allocated; 15.56 MiB free; 9.64 GiB reserved in total by PyTorch) If reserved memory is >> "
    "allocated memory try setting max_split_size_mb to avoid fragmentation. See documentation for Memory "
    "Management and PYTORCH_CUDA_ALLOC_CONF"
)
PYTORCH_1_LIMITED = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; 23.69 GiB total "
    "capacity; 7.01 GiB already allocated; 14.00 GiB free; 8.00 GiB allowed; 7.20 GiB reserved in total by "
    "PyTorch)"
)
PYTORCH_2_1 = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacty "
    "of 23.69 GiB of which 1.44 GiB is free. Process 4321 has 6.02 GiB memory in use. Including non-PyTorch "
    "memory, this process has 16.21 GiB memory in use. Of the allocated memory 14.50 GiB is allocated by "
    "PyTorch, and 1.21 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is "
    "large try setting max_split_size_mb to avoid fragmentation."
)
PYTORCH_2_6_IN_A_CONTAINER = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 130.00 MiB. GPU 0 has a total capacity of "
    "14.74 GiB of which 60.12 MiB is free. Process 12345 has 14.68 GiB memory in use. Of the allocated "
    "memory 14.30 GiB is allocated by PyTorch, with 64.00 MiB allocated in private pools (e.g., CUDA "
    "Graphs), and 200.35 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is "
    "large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)
BROKEN_DRIVER = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 10.00 GiB of which 1.00 "
    "GiB is free. Process 7 has 17179869184.00 GiB memory in use. Of the allocated memory 8.00 GiB is "
    "allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated."
)
TWO_GPUS = (
    "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 1 has a total "
    "capacity of 23.64 GiB of which 512.00 MiB is free. Including non-PyTorch memory, this process has 23.10 "
    "GiB memory in use. Of the allocated memory 22.00 GiB is allocated by PyTorch, and 600.00 MiB is "
    "reserved by PyTorch but unallocated.\n"
    "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total "
    "capacity of 23.64 GiB of which 100.00 MiB is free. Including non-PyTorch memory, this process has 23.50 "
    "GiB memory in use. Of the allocated memory 22.40 GiB is allocated by PyTorch, and 600.00 MiB is "
    "reserved by PyTorch but unallocated.\n"
)
MPS = (
    "RuntimeError: MPS backend out of memory (MPS allocated: 8.12 GB, other allocations: 384.00 KB, max "
    "allowed: 9.07 GB). Tried to allocate 250.00 MB on private pool."
)
CUDA_MALLOC_ASYNC = (
    "torch.OutOfMemoryError: Allocation on device 1 would exceed allowed memory. (out of memory)\n"
    "Currently allocated     : 9.43 GiB\nRequested               : 640.00 MiB\n"
    "Device limit            : 11.59 GiB\nFree (according to CUDA): 7.12 MiB\n"
    "PyTorch limit (set by user-supplied memory fraction)\n                        : 17179869184.00 GiB"
)
PYTORCH_NPU = (
    "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 3; 60.97 GiB total capacity; 58.20 GiB "
    "already allocated; 58.20 GiB current active; 1.10 GiB free; 59.30 GiB reserved in total by PyTorch) If "
    "reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation."
)
OOM_KILLER = (
    "[12345.678] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python,pid=4711,uid=1000\n"
    "[12345.679] Memory cgroup out of memory: Killed process 4711 (python) total-vm:50331648kB, "
    "anon-rss:32505856kB, file-rss:80kB, shmem-rss:0kB, UID:1000 pgtables:1kB oom_score_adj:0"
)

ALLOC_FAILED = "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
WORDINGS = {
    OomKind.GPU: [
        *(
            PYTORCH_1_3,
            PYTORCH_1_12,
            PYTORCH_1_LIMITED,
            PYTORCH_2_1,
            PYTORCH_2_6_IN_A_CONTAINER,
            TWO_GPUS,
            MPS,
            CUDA_MALLOC_ASYNC,
        ),
        PYTORCH_1_12.replace("CUDA", "HIP"),
        "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be reported later",
        "torch.AcceleratorError: CUDA error: out of memory",
        "RuntimeError: cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/THCStorage.cu:58",
        "RuntimeError: CUDA failed with error out of memory",
        "torch.AcceleratorError: HIP error: out of memory",
        "hipErrorOutOfMemory: out of memory",
        "RuntimeError: XPU error: out of memory",
        "RuntimeError: Invalid buffer size: 19.53 GiB",
        "Native API failed. Native API returns: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 24.00 MiB: cudaMalloc failed: out of memory",
        "ncclUnhandledCudaError: Call to CUDA function failed. Cuda failure 2 'out of memory'",
        "ggml_cuda_pool_malloc: CUDA error 2 at ggml-cuda.cu:5024: out of memory",
        "RuntimeError: Triton Error [CUDA]: out of memory",
        'NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":1131',
        "RuntimeError: No executable batch size found, reached zero.",
        "error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
        "vk::Device::allocateMemory: ErrorOutOfDeviceMemory",
        PYTORCH_NPU,
    ],
    OomKind.LIBRARY: [
        ALLOC_FAILED,
        "RuntimeError: level_zero backend failed with error: 40 (UR_RESULT_ERROR_OUT_OF_RESOURCES)",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "CUDA error: HIPBLAS_STATUS_ALLOC_FAILED when calling `hipblasCreate(handle)`",
        "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "MIOpen Error: miopenStatusAllocFailed",
        "RuntimeError: Unable to find a valid cuDNN algorithm to run convolution",
        "RuntimeError: GET was unable to find an engine to execute this computation",
        "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "Native API failed. Native API returns: -5 (PI_ERROR_OUT_OF_RESOURCES)",
    ],
    OomKind.BITSANDBYTES: [
        "Error out of memory at line 380 in file /src/csrc/pythonInterface.c",
        "CUDA error: out of memory at line 519 in file /src/csrc/pythonInterface.c",
        "ValueError: Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM "
        "to fit the quantized model.",
    ],
    OomKind.BITSANDBYTES_SETUP: [
        "The installed version of bitsandbytes was compiled without GPU support. 8-bit optimizers and GPU "
        "quantization are unavailable.",
        "RuntimeError: CUDA Setup failed despite GPU being available.",
        "ImportError: Using `bitsandbytes` 4-bit quantization requires bitsandbytes: pip install it",
    ],
    OomKind.CPU: [
        "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate "
        "memory: you tried to allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)",
        "RuntimeError: DefaultCPUAllocator: not enough memory: you tried to allocate 8589934592 bytes.",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8.00 GiB for an array with shape (1,)",
        "MemoryError",
        "memory allocation of 8589934592 bytes failed",
        "OSError: [Errno 12] Cannot allocate memory",
        "OSError: [WinError 1455] The paging file is too small for this operation to complete.",
        "RuntimeError: Couldn't open shared file mapping: <torch_13684_4004756411_0>, error code: <1455>",
        "OSError: 頁面檔太小，無法完成操作。 (os error 1455)",
        "OSError: [WinError 8] Not enough memory resources are available to process this command",
        "RuntimeError: bad allocation",
        "RuntimeError: mkl_malloc: failed to allocate memory",
        "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
    ],
    OomKind.SHARED: [
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared "
        "memory (shm).",
        "unable to mmap 7864320 bytes from file </torch_18692_1954506624_0>: Cannot allocate memory (12)",
        "RuntimeError: unable to write to file </torch_18692_1954506624>: No space left on device (28)",
        "RuntimeError: unable to allocate shared memory(shm) for file </torch_1_2_3>: Success (0)",
        "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-abc (size 9637888)",
        "OSError: [Errno 28] No space left on device: '/dev/shm/torch_1_2_3'",
    ],
    OomKind.KILLED: [
        OOM_KILLER,
        "step 12 of 400\nKilled\n",
        "slurmstepd: error: Detected 1 oom_kill event. Some of the step tasks have been OOM Killed.",
        "./train.sh: line 3:  4711 Killed                  python train.py",
        "  exitcode  : -9 (pid: 4711)",
        "subprocess died with <Signals.SIGKILL: 9>.",
        "command terminated with exit code 137",
        "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.",
        "srun: error: gpu01: task 0: Killed",
        "srun: error: gpu01: tasks 0-2,5: Out Of Memory",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=123.0.",
        "slurmstepd: error: Exceeded job memory limit at some point.",
        "State: OUT_OF_MEMORY (exit code 0)",
        "123.batch  batch  lab  8  OUT_OF_ME+  0:125",
        "[1]  + 12345 killed     python train.py",
        "[1]    12345 killed     python train.py",
        "./train.sh: line 3: 12345 Killed: 9  python train.py",
        "[ERROR] [launch.py:321] python train.py exits with return code = -9",
        "container exited with code 137",
        "Exited (137) 3 minutes ago",
        *("    Exit Code:    137", "exitCode=137", "make: *** [Makefile:3: train] Error 137"),
        *("/bin/sh: 1: Killed", "2026-01-02T03:04:05Z Killed", "2026-01-02 03:04:05,678 Killed"),
        *("train.sh: 第 3 行： 4711 已杀死 python train.py", "已砍掉"),
        "Your session crashed after using all available RAM.",
        "Your notebook tried to allocate more memory than is available. It has restarted.",
    ],
    OomKind.INDEX: [
        "../aten/src/ATen/native/cuda/Indexing.cu:1292: indexSelectLargeIndex: block: [0,0,0], thread: [0,0] "
        "Assertion `srcIndex < srcSelectDimSize` failed.\nRuntimeError: CUDA error: "
        "CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "RuntimeError: CUDA error: device-side assert triggered",
    ],
    OomKind.VERSIONS: [
        "RuntimeError: cuDNN version incompatibility: PyTorch was compiled against (9, 1, 0) but found (8)",
        "RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH\nCUDNN_STATUS_NOT_INITIALIZED",
    ],
    OomKind.TIME: [
        "slurmstepd: error: *** JOB 123 ON gpu01 CANCELLED AT 2026-01-02 DUE TO TIME LIMIT ***\nKilled",
        "slurmstepd: error: *** STEP 123.0 ON gpu01 CANCELLED AT 2026-01-02T03:04:05 DUE TO PREEMPTION ***\n"
        "srun: error: gpu01: task 0: Killed",
        "State: TIMEOUT (exit code 0)",
    ],
}


@pytest.mark.parametrize(
    ("text", "kind"),
    [(text, kind) for kind, texts in WORDINGS.items() for text in texts],
    ids=lambda value: str(value)[:40],
)
def test_every_wording_is_recognised_alone_and_within_a_log(text: str, kind: OomKind) -> None:
    assert read_report(text).kind is kind
    log = f"epoch 1\nloss 2.1\nTraceback (most recent call last):\n  File a.py\n{text}\nSaving nothing.\n"
    assert read_report(log).kind is kind
    assert str(explain(log).sentences[0])


def _read(text: str) -> OomReport:
    """All but the words themselves."""
    return replace(read_report(text), words="", trace="")


_COLOUR, _END = "\x1b[1;36m", "\x1b[0m"


@pytest.mark.parametrize(
    "text", [text for texts in WORDINGS.values() for text in texts], ids=lambda value: str(value)[:40]
)
def test_what_terminals_and_launchers_add_changes_nothing(text: str) -> None:
    plain = _read(text)
    lines = text.splitlines()
    link = f"\x1b]8;;file:///a.py\x1b\\{text}\x1b]8;;\x1b\\"
    coloured = " ".join(f"{_COLOUR}{word}{_END}" for word in text.split(" "))
    for written in (
        *(f"{_COLOUR}{text}{_END}", link, coloured, text.replace("\n", "\r\n")),
        *(
            "\n".join(start + line for line in lines)
            for start in ("[rank0]: ", " 3: ", "[default1]:[rank1]: ")
        ),
        "\n".join(f"│ {line:<80} │" for line in lines),
    ):
        assert _read(written) == plain


@pytest.mark.parametrize("width", [20, 40, 61, 85])
@pytest.mark.parametrize(
    "text",
    [
        *(PYTORCH_1_3, PYTORCH_1_12, PYTORCH_1_LIMITED, PYTORCH_2_1, PYTORCH_2_6_IN_A_CONTAINER, MPS),
        *(text for text in WORDINGS[OomKind.CPU] if "llocat" in text),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_message_that_was_broken_into_lines_keeps_its_figures(text: str, width: int) -> None:
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    for start in ("", "    ", "[rank1]: ", "│ "):
        assert _read("\n".join(start + line for line in lines)) == _read(text)


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "\x1b[",
            "\x1b[1",
            "\x1b]8",
            " ",
            "\n",
            "\t",
            "1",
            "1.",
            "1: ",
            "[rank1]: ",
            "│ ",
            "│",
            "│\n",
            "\r",
        ),
        *(
            "CUDA out of memory ",
            "GPU ",
            "GPU 1",
            "Allocation on device ",
            "DefaultCPUAllocator: ",
            "Killed ",
        ),
        *(
            "Unable to allocate ",
            "Killed process 1",
            "Assertion ",
            "CUDA out of memory. Tried to allocate 1",
            "_a.",
            "exit ",
        ),
    ],
)
def test_a_long_text_of_whatever_is_read_at_once(piece: str) -> None:
    began = time.process_time()
    for start in ("", "GPU ", "CUDA out of memory. Tried to allocate ", "Unable to allocate "):
        read_report(start + piece * (200_000 // len(piece)))
    assert time.process_time() - began < 4


@pytest.mark.parametrize(
    "text",
    [
        *("", "Hello.", "ValueError: learning_rate must be positive", "memory 12.3 GiB in use, 40 % free"),
        *("He killed it; exit code 1; signal 15", "loss 1.9, out of 400 steps"),
        *("reference: Killed in action", "Somebody Killed", "他已杀死"),
        *("return -9", "srun: error: gpu01: task 0: Exited with exit code 1", "return code = 0"),
    ],
)
def test_what_says_nothing_of_memory_is_told_so_in_one_sentence(text: str) -> None:
    diagnosis = explain(text, LORA, LARGE)
    assert diagnosis.report.kind is OomKind.UNKNOWN
    assert len(diagnosis.sentences) == 1 and "paste the last lines" in str(diagnosis.sentences[0])
    assert diagnosis.repaired is None


def test_figures_of_pytorch_1() -> None:
    report = read_report(PYTORCH_1_12)
    assert (report.asked_bytes, report.free_bytes) == (20 * MIB, int(15.56 * MIB))
    assert (report.total_bytes, report.allocated_bytes) == (int(10.76 * GIB), int(9.58 * GIB))
    assert (report.reserved_bytes, report.gpu_index) == (int(9.64 * GIB), 0)
    older = read_report(PYTORCH_1_3)
    assert (older.reserved_bytes, older.gpu_index) == (int(9.58 * GIB) + 64 * MIB, 1)
    assert read_report(PYTORCH_1_LIMITED).allowed_bytes == 8 * GIB


def test_figures_of_apples_gpus_are_mib_and_gib_though_written_otherwise() -> None:
    diagnosis = explain(MPS)
    report = diagnosis.report
    assert (report.asked_bytes, report.total_bytes) == (250 * MIB, int(9.07 * GIB))
    assert report.allocated_bytes == int(8.12 * GIB) and report.reserved_bytes is None
    assert str(diagnosis.sentences[1]) == "This process held 8.12 GiB of tensors."


def test_figures_of_ascends_processors() -> None:
    report = read_report(PYTORCH_NPU)
    assert (report.asked_bytes, report.free_bytes) == (2 * GIB, int(1.10 * GIB))
    assert (report.allocated_bytes, report.reserved_bytes) == (int(58.20 * GIB), int(59.30 * GIB))
    assert (report.gpus, report.tool) == ((3,), "npu-smi")


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA failed with error out of memory",
        "RuntimeError: cuBLAS failed with status CUBLAS_STATUS_ALLOC_FAILED",
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 24.00 MiB: cudaMalloc failed: out of memory",
    ],
)
def test_who_ran_out_while_transcribing_is_told_nothing_of_training(text: str) -> None:
    diagnosis = explain(text, LORA, LARGE)
    assert diagnosis.repaired is None and diagnosis.part is None
    told = " ".join(str(sentence) for sentence in diagnosis.sentences)
    assert "int8_float16" in told and "gradient" not in told and "LoRA" not in told


def test_gpus_that_share_the_weights_out_hold_no_copies() -> None:
    divided = replace(LORA, sharding="fsdp", num_gpus=2)
    for plan, is_said in ((LORA, True), (divided, False)):
        told = " ".join(str(sentence) for sentence in explain(TWO_GPUS, plan, LARGE).sentences)
        assert ("each holds a copy of the model" in told) == is_said


def test_figures_of_cuda_malloc_async() -> None:
    report = read_report(CUDA_MALLOC_ASYNC)
    assert (report.asked_bytes, report.free_bytes, report.gpu_index) == (640 * MIB, int(7.12 * MIB), 1)
    assert (report.total_bytes, report.allocated_bytes) == (int(11.59 * GIB), int(9.43 * GIB))


def test_figures_of_pytorch_2_with_another_process() -> None:
    diagnosis = explain(PYTORCH_2_1)
    report = diagnosis.report
    assert (report.asked_bytes, report.free_bytes) == (2 * GIB, int(1.44 * GIB))
    assert (report.total_bytes, report.process_bytes) == (int(23.69 * GIB), int(16.21 * GIB))
    assert report.reserved_bytes == int(14.50 * GIB) + int(1.21 * GIB)
    assert report.holders == (Holder(4321, int(6.02 * GIB)),)
    assert diagnosis.others_bytes == int(6.02 * GIB)
    assert any("4321 (6.02 GiB)" in str(sentence) for sentence in diagnosis.sentences)


def test_in_a_container_the_one_process_that_is_named_is_this_one() -> None:
    diagnosis = explain(PYTORCH_2_6_IN_A_CONTAINER)
    assert diagnosis.report.process_bytes == int(14.68 * GIB)
    assert diagnosis.report.holders == () and diagnosis.others_bytes == 0


def test_a_figure_that_cannot_be_is_left_out() -> None:
    assert read_report(BROKEN_DRIVER).holders == ()
    itself = BROKEN_DRIVER.replace("Process 7", "Including non-PyTorch memory, this process")
    assert read_report(itself).process_bytes is None


def test_the_smallest_run_is_not_said_to_be_too_large_for_a_card_that_held_far_more() -> None:
    small = replace(LORA, batch_size=1, gradient_checkpointing=True, quantization="4bit", eval_batch_size=0)
    small = replace(small, target_modules=("q_proj", "v_proj"), lora_r=1, label_length=1)
    told = [str(sentence) for sentence in explain(PYTORCH_2_1, small, LARGE).sentences]
    assert "check that model, method and batch size are those of the run" in " ".join(told)
    assert not any("does not fit there" in sentence for sentence in told)
    alone = [str(sentence) for sentence in explain(ALLOC_FAILED, small, LARGE).sentences]
    assert any("does not fit there" in sentence for sentence in alone)


def test_all_gpus_that_ran_out_are_named() -> None:
    diagnosis = explain(TWO_GPUS)
    assert diagnosis.report.gpus == (0, 1) and diagnosis.report.gpu_index == 1
    assert any(str(sentence).startswith("GPUs 0, 1 all ran out") for sentence in diagnosis.sentences)


def test_figures_of_the_machines_own_memory() -> None:
    killed = read_report(OOM_KILLER)
    assert killed.process_bytes == 31 * GIB
    sizes = {read_report(text).asked_bytes for text in WORDINGS[OomKind.CPU] if "8589934592" in text}
    assert sizes == {8 * GIB}


@pytest.mark.parametrize(
    ("frames", "part"),
    [
        ('File "torch/optim/adamw.py", line 90, in _init_group\n  state["exp_avg"] =', Part.OPTIMIZER_STATES),
        ("    loss = loss_fct(lm_logits.view(-1, V))\n nn/functional.py cross_entropy", Part.LOGITS_AND_LOSS),
        ("    self.accelerator.backward(loss, **kwargs)\n torch/autograd/graph.py", Part.GRADIENTS),
        (
            '    hidden = self.fc1(hidden)\n File "torch/autograd/function.py", line 596, in apply\n'
            ' File "bitsandbytes/autograd/_functions.py", line 350, in forward',
            Part.ACTIVATIONS,
        ),
        ("    generated = self.model.generate(**inputs)\n in prediction_step", Part.ACTIVATIONS),
        ("    model = WhisperForConditionalGeneration.from_pretrained(name)", Part.WEIGHTS_FROZEN),
        ("    hidden = self.activation_fn(self.fc1(hidden))\n modeling_whisper.py", Part.ACTIVATIONS),
    ],
)
def test_the_frames_tell_what_the_memory_was_for(frames: str, part: Part) -> None:
    text = f"Traceback (most recent call last):\n{frames}\n{PYTORCH_1_12}"
    assert explain(text).part is part


def test_who_ran_out_in_evaluation_is_told_of_its_batch_alone() -> None:
    frames = "Traceback (most recent call last):\n in evaluation_loop\n in prediction_step\n in generate\n"
    plan = TrainingPlan(base_dtype="bf16", batch_size=4, eval_batch_size=32, generation_num_beams=5)
    alone = PYTORCH_2_1.replace("Process 4321 has 6.02 GiB memory in use. ", "").replace("16.21", "22.23")
    text = frames + alone
    diagnosis = explain(text, plan, LARGE)
    assert any("per_device_eval_batch_size" in str(sentence) for sentence in diagnosis.sentences)
    repaired = diagnosis.repaired
    assert repaired is not None and repaired.fits and repaired.plan.eval_batch_size < 32
    assert replace(repaired.plan, eval_batch_size=32) == plan
    small = explain(text.replace("23.69", "9.69"), plan, LARGE).repaired
    assert small is not None and small.fits and small.plan.gradient_checkpointing


LARGE_MODEL = find_released("large-v3")
assert LARGE_MODEL is not None
LARGE = LARGE_MODEL.dimensions
LORA = TrainingPlan(base_dtype="bf16")


def test_without_frames_a_tensor_of_just_that_size_tells() -> None:
    plan = TrainingPlan(method="full", batch_size=4)
    scores = 4 * 20 * 1500 * 1500 * 2 / MIB
    text = PYTORCH_1_12.replace("20.00 MiB", f"{scores:.2f} MiB")
    assert explain(text, plan, LARGE).part is Part.ACTIVATIONS
    embedding = 4 * LARGE.vocab_size * LARGE.d_model / MIB
    text = PYTORCH_1_12.replace("20.00 MiB", f"{embedding:.2f} MiB")
    assert explain(text, plan, LARGE).part is Part.GRADIENTS


@pytest.mark.parametrize(
    "text", [PYTORCH_1_12, PYTORCH_2_1, PYTORCH_2_6_IN_A_CONTAINER, "CUDA error: out of memory", ALLOC_FAILED]
)
@pytest.mark.parametrize(
    "plan", [LORA, replace(LORA, gradient_checkpointing=True), TrainingPlan(method="full")]
)
def test_the_repaired_plan_takes_less_and_fits_beside_the_others(text: str, plan: TrainingPlan) -> None:
    diagnosis = explain(text, plan, LARGE)
    repaired = diagnosis.repaired
    assert repaired is not None and repaired.fits
    estimate = estimate_training(repaired.plan, LARGE)
    assert estimate.high_bytes < estimate_training(plan, LARGE).low_bytes
    if diagnosis.report.total_bytes is not None:
        assert estimate.high_bytes <= diagnosis.report.total_bytes - (diagnosis.others_bytes or 0)


def test_where_no_plan_helps_a_smaller_model_is_advised() -> None:
    text = PYTORCH_1_12.replace("10.76", "2.00").replace("9.58", "1.60").replace("9.64", "1.62")
    diagnosis = explain(text, LORA, LARGE)
    assert diagnosis.repaired is not None and not diagnosis.repaired.fits
    assert "take a smaller model" in str(diagnosis.sentences[-1])


def test_a_lot_kept_back_is_answered_with_the_setting_that_helps() -> None:
    text = PYTORCH_1_12.replace("9.58 GiB already", "6.00 GiB already")
    assert any("expandable_segments" in str(sentence) for sentence in explain(text).sentences)
    assert not any("expandable_segments" in str(sentence) for sentence in explain(PYTORCH_1_12).sentences)


def test_the_setting_is_called_as_the_message_calls_it() -> None:
    text = PYTORCH_2_6_IN_A_CONTAINER.replace("200.35 MiB", "2.35 GiB")
    assert any("set PYTORCH_CUDA_ALLOC_CONF to" in str(sentence) for sentence in explain(text).sentences)
    renamed = explain(text.replace("PYTORCH_CUDA_ALLOC", "PYTORCH_ALLOC"))
    assert any("set PYTORCH_ALLOC_CONF to" in str(sentence) for sentence in renamed.sentences)


def test_cards_of_other_makers_are_advised_their_own_setting_and_tool() -> None:
    unnamed = PYTORCH_2_1.replace("1.21 GiB is reserved", "4.21 GiB is reserved").split(" If reserved")[0]
    for name, setting, tool in (
        ("CUDA", "set PYTORCH_CUDA_ALLOC_CONF", "nvidia-smi names"),
        ("HIP", "set PYTORCH_HIP_ALLOC_CONF", "rocm-smi names"),
        ("XPU", "", "xpu-smi names"),
    ):
        told = " ".join(map(str, explain(unnamed.replace("CUDA out", f"{name} out")).sentences))
        assert tool in told and setting in told and ("fragmented" in told) == bool(setting)


def test_settings_that_take_less_than_there_was_are_doubted() -> None:
    small = find_released("small")
    assert small is not None
    for plan, dimensions, are_doubted in (
        (LORA, small.dimensions, True),
        (replace(LORA, batch_size=16), LARGE, False),
    ):
        sentences = [str(one) for one in explain(PYTORCH_2_1, plan, dimensions).sentences]
        assert any("this process held more" in one for one in sentences) == are_doubted


def test_a_kill_is_not_blamed_on_the_gpu() -> None:
    diagnosis = explain(OOM_KILLER, LORA, LARGE)
    assert diagnosis.repaired is None and diagnosis.part is None
    assert "not the GPU's" in str(diagnosis.sentences[0])


def test_what_other_faults_cause_as_well_is_only_likely_a_lack_of_memory() -> None:
    for text in WORDINGS[OomKind.LIBRARY]:
        is_certain = "alloc" in text.casefold()
        diagnosis = explain(text)
        assert diagnosis.report.is_certain == is_certain
        assert ("most likely" in str(diagnosis.sentences[0])) != is_certain


def test_a_hint_in_every_error_of_cuda_is_no_failed_check() -> None:
    text = "CUDA error: out of memory\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."
    assert read_report(text).kind is OomKind.GPU


def test_other_faults_and_a_job_whose_time_was_over_lacked_no_memory() -> None:
    for text in [*WORDINGS[OomKind.TIME], *WORDINGS[OomKind.INDEX], *WORDINGS[OomKind.VERSIONS]]:
        diagnosis = explain(text, LORA, LARGE)
        assert not diagnosis.report.kind.is_memory and diagnosis.repaired is None
        assert str(diagnosis.sentences[0]).startswith("This is not about memory")


def test_the_answer_for_machines_has_bytes() -> None:
    row = explain(PYTORCH_2_1, LORA, LARGE).to_json()
    assert row["kind"] == "gpu" and row["asked_bytes"] == 2 * GIB
    assert row["processes"] == [{"pid": 4321, "held_bytes": int(6.02 * GIB)}]
    assert row["repaired"]["estimate"]["high_bytes"] > 0


def test_a_huge_paste_is_read_from_its_end() -> None:
    assert read_report("x" * 3_000_000 + "\n" + PYTORCH_1_12).asked_bytes == 20 * MIB
    assert read_report(PYTORCH_1_12 + "\n" + "Killed ?" * 100_000).kind is OomKind.UNKNOWN
