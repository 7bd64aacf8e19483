"""`TrainingConfig`: the one schema behind the form, the command line, the YAML file and the preview.

Names are those of `Seq2SeqTrainingArguments` and `LoraConfig`. Each field documents itself
(`studio.options.option`): form, flags, files, help, bounds and the memory plan's limits derive from it.
This module imports nothing heavy.
"""

from dataclasses import Field, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from studio.methods import METHODS
from studio.methods.method import Method
from studio.options.checks import check, weights_of
from studio.options.choices import (
    ALL_LINEAR,
    ATTENTIONS,
    DTYPES,
    METHOD_LABELS,
    METRICS,
    NORMALIZERS,
    OPTIMIZERS,
    PRECISIONS,
    QUANTIZATIONS,
    REENTRANT,
    SCHEDULERS,
    SHARDINGS,
    SHORT_AUDIO,
    STRATEGIES,
    TASKS,
    TRACKERS,
    or_auto,
)
from studio.options.option import option
from studio.options.sources import DEMO
from studio.whisper.constants import TEXT_POSITIONS, WINDOW_TOKENS

GROUPS = {
    "data": "More about the data",
    "augmentation": "Augmentation",
    "method": "Adapter, quantization and precision",
    "schedule": "Steps, batches and learning rate",
    "evaluation": "Evaluation and checkpoints",
    "processes": "Several GPUs and machines",
    "machine": "This machine",
}
"""Titles of the folded sections of the form; `model` stands above them."""
model_option, data_option, augmentation_option, method_option = (
    partial(option, group) for group in ("model", "data", "augmentation", "method")
)
schedule_option, evaluation_option, processes_option, machine_option = (
    partial(option, group) for group in ("schedule", "evaluation", "processes", "machine")
)
"""What makes an option of each section."""


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that decides what a run does. Checked when made: a value out of range is a `ConfigError`."""

    # model
    base_model: str = model_option(
        "demo",
        "Base model",
        "Model to start from: registry id, folder or Hub id.",
        aliases=("model_name_or_path", "model"),
        in_plan=True,
        names="model",
        of_machine=True,
    )

    # data
    train_data: str = data_option(
        "demo",
        "Training data",
        "Training manifest, audio folder or Hub dataset; several are separated by commas.",
        is_list=True,
        aliases=("train_file", "data", "dataset"),
        names="data",
        of_machine=True,
    )
    test_data: str = data_option(
        "",
        "Evaluation data",
        "Manifest for evaluation; empty: a share of the training data is held out.",
        is_list=True,
        aliases=("validation_file", "test_file", "eval_data", "val_dataset"),
        names="data",
        of_machine=True,
    )
    train_weights: str = data_option(
        "",
        "Sampling weights of the data",
        "Shares of several training manifests in an epoch, such as 0.7,0.3; empty: by their sizes.",
        is_list=True,
        in_probe="",
    )
    audio_column: str = data_option(
        "",
        "Audio column",
        "Column with the audio; empty: audio, path or another usual name.",
        aliases=("audio_column_name",),
    )
    text_column: str = data_option(
        "",
        "Text column",
        "Column with the text; empty: text, sentence or another usual name.",
        aliases=("text_column_name",),
    )
    validation_share: float = data_option(
        0.1,
        "Share held out for evaluation",
        "Share held out when there is no evaluation manifest.",
        bounds=(0.01, 0.9),
    )
    max_train_samples: int | None = data_option(
        None,
        "Max training clips",
        "Use at most this many training clips.",
        bounds=(1, 10**9),
        automatic="0 = all.",
    )
    max_eval_samples: int | None = data_option(
        None,
        "Max evaluation clips",
        "Use at most this many evaluation clips.",
        bounds=(1, 10**9),
        automatic="0 = all.",
        aliases=("max_validation_samples",),
    )
    min_audio_len: float = data_option(
        0.2,
        "Shortest clip (seconds)",
        "Shortest clip used, in seconds.",
        bounds=(0.0, 30.0),
        aliases=("min_duration_in_seconds",),
    )
    max_audio_len: float = data_option(
        30.0,
        "Longest clip (seconds)",
        "Longest clip used, in seconds.",
        bounds=(0.1, 30.0),
        aliases=("max_duration_in_seconds",),
        in_plan=True,
    )
    language: str = data_option(
        "auto", "Language", "Language of the clips, name or code; auto takes each row's, or detects it."
    )
    task: str = data_option("transcribe", "Task", "Transcribe, or translate into English.", choices=TASKS)
    timestamps: bool = data_option(
        True,
        "Train timestamps",
        "Train half of the clips that have segment times with timestamps, as Whisper was.",
        aliases=("return_timestamps",),
    )
    make_timestamps: bool = data_option(
        False,
        "Timestamps by the base model",
        "Timestamps by the base model for texts without segments, where its words match the text.",
        reteaches=True,
    )
    pack_clips: bool = data_option(
        False,
        "Pack short clips",
        "Concatenate short clips to windows of up to max_audio_len, with timestamps between them.",
        reteaches=True,
    )
    condition_on_prev_probability: float = data_option(
        0.0,
        "Share with previous text as prompt",
        "Share of clips with known previous text that are trained with it as prompt.",
        bounds=(0.0, 1.0),
        reteaches=True,
    )
    normalizer: str = data_option(
        "none", "Text normalization", "Normalization applied to labels.", choices=NORMALIZERS
    )
    no_speech_share: float = data_option(
        0.0,
        "Share of clips without speech",
        "Share of training clips without speech, so that silence gives no text.",
        bounds=(0.0, 0.5),
        reteaches=True,
    )

    # augmentation
    apply_spec_augment: bool = augmentation_option(
        False,
        "SpecAugment",
        "SpecAugment: mask parts of the features, as the mask_… options say.",
        reteaches=True,
    )
    mask_time_prob: float = augmentation_option(
        0.05, "Time masking ratio", "Share of the frames that is masked.", bounds=(0.0, 1.0)
    )
    mask_time_length: int = augmentation_option(
        10, "Mask length (frames)", "Frames (10 ms each) of one mask.", bounds=(1, 3000)
    )
    mask_feature_prob: float = augmentation_option(
        0.0, "Frequency masking ratio", "Share of the mel bins that is masked.", bounds=(0.0, 1.0)
    )
    mask_feature_length: int = augmentation_option(
        10, "Mask length (mel bins)", "Mel bins of one mask.", bounds=(1, 128)
    )
    speed_prob: float = augmentation_option(
        0.0, "Speed: share of clips", "Share of clips with changed speed.", bounds=(0.0, 1.0), reteaches=True
    )
    min_speed_rate: float = augmentation_option(0.9, "Slowest speed", "Slowest speed.", bounds=(0.5, 2.0))
    max_speed_rate: float = augmentation_option(1.1, "Fastest speed", "Fastest speed.", bounds=(0.5, 2.0))
    noise_prob: float = augmentation_option(
        0.0, "Noise: share of clips", "Share of clips with added noise.", bounds=(0.0, 1.0), reteaches=True
    )
    min_snr_db: float = augmentation_option(
        10.0,
        "Lowest SNR (dB)",
        "Lowest signal-to-noise ratio, in dB: the loudest noise.",
        bounds=(-20.0, 100.0),
    )
    max_snr_db: float = augmentation_option(
        50.0,
        "Highest SNR (dB)",
        "Highest signal-to-noise ratio, in dB: the faintest noise.",
        bounds=(-20.0, 100.0),
    )
    noise_dir: str = augmentation_option(
        "",
        "Folder with noise",
        "Folder with recordings of noise; empty: white noise.",
        names="path",
        in_probe="",
    )
    reverb_prob: float = augmentation_option(
        0.0, "Reverb: share of clips", "Share of clips with room reverb.", bounds=(0.0, 1.0), reteaches=True
    )
    resample_prob: float = augmentation_option(
        0.0,
        "Telephone: share of clips",
        "Share of clips in telephone quality (8 kHz).",
        bounds=(0.0, 1.0),
        reteaches=True,
    )
    volume_prob: float = augmentation_option(
        0.0,
        "Volume: share of clips",
        "Share of clips with changed volume.",
        bounds=(0.0, 1.0),
        reteaches=True,
    )
    min_gain_db: float = augmentation_option(
        -15.0, "Lowest gain (dB)", "Lowest gain, in dB.", bounds=(-60.0, 60.0)
    )
    max_gain_db: float = augmentation_option(
        15.0, "Highest gain (dB)", "Highest gain, in dB.", bounds=(-60.0, 60.0)
    )
    augment_config_path: str = augmentation_option(
        "",
        "Augmentation from a file",
        "JSON list of {type, params, prob}; overrides the options above.",
        reteaches=True,
        names="path",
        in_probe="",
    )

    # method
    method: str = method_option(
        "lora", "Method", "Which weights are trained.", choices=METHOD_LABELS, in_plan=True
    )
    lora_r: int = method_option(
        32, "LoRA rank", "Rank of the adapter.", bounds=(1, 1024), aliases=("lora_rank",), in_plan=True
    )
    lora_alpha: int = method_option(
        64, "LoRA alpha", "The adapter is scaled by alpha / rank.", bounds=(1, 4096), in_plan=True
    )
    lora_dropout: float = method_option(
        0.0, "LoRA dropout", "Dropout before the adapter; it costs time and memory.", bounds=(0.0, 0.9)
    )
    target_modules: tuple[str, ...] = method_option(
        ALL_LINEAR,
        "Layers with an adapter",
        "Linear layers that get an adapter, separated by commas; all-linear for all.",
        is_list=True,
        aliases=("lora_target_modules",),
        in_plan=True,
    )
    adapter: str = method_option(
        "",
        "Continue from adapter",
        "Adapter to continue from: registry id or folder. Its method, rank and layers are kept.",
        aliases=("adapter_name_or_path", "init_adapter"),
        reteaches=True,
        names="model",
        in_probe="",
    )
    quantization: str = method_option(
        "none", "Quantization", "Quantization of the base.", choices=QUANTIZATIONS, in_plan=True
    )
    precision: str = method_option(
        "auto",
        "Precision",
        "Data type of the computation; auto: the best of this machine. pure_bf16 also keeps "
        "trained weights in bf16.",
        choices=or_auto(PRECISIONS),
        aliases=("mixed_precision",),
        in_plan=True,
    )
    base_dtype: str = method_option(
        "auto",
        "Data type of the base",
        "Data type of the base weights; auto: the precision of the run where they are frozen, else fp32.",
        choices=or_auto(DTYPES),
        aliases=("torch_dtype", "dtype"),
        in_plan=True,
    )
    attn_implementation: str = method_option(
        "auto",
        "Attention",
        "Attention implementation; auto: sdpa. eager takes more than twice the memory.",
        choices=or_auto(ATTENTIONS),
        in_plan=True,
    )
    gradient_checkpointing: bool = method_option(
        False,
        "Gradient checkpointing",
        "Recompute activations in the backward pass instead of storing them.",
        aliases=("activation_checkpointing",),
        for_trainer=True,
        in_plan=True,
    )
    loss_chunk_size: int = method_option(
        256,
        "Loss chunk size (tokens)",
        "Tokens whose logits are computed at once; the loss stays the same. 0: all.",
        bounds=(0, 10**6),
        in_plan=True,
    )
    use_reentrant: str = method_option(
        "auto",
        "Reentrant checkpointing",
        "Variant of checkpointing; auto is true for an 8-bit base, where the other keeps each layer's input.",
        choices=REENTRANT,
        in_plan=True,
    )
    torch_compile: bool = method_option(
        False,
        "Compile the model",
        "Compile the model: slower to begin, then faster. Its memory is estimated as without.",
        aliases=("use_compile",),
        for_trainer=True,
    )
    short_audio: str = method_option(
        "auto",
        "Short-audio mode",
        "Encoder input as long as the batch's audio instead of 30 seconds, in training and "
        "inference: faster, and less memory, on short clips. auto decides by the clips' "
        "lengths and the number of steps.",
        choices=SHORT_AUDIO,
        in_plan=True,
        in_probe="off",
    )
    padded_share: float = method_option(
        0.0,
        "Share of padded batches",
        "In short-audio mode, the share of batches padded to 30 seconds. Rehearsal keeps 30 s "
        "windows accurate at a lower cost.",
        bounds=(0.0, 1.0),
    )
    adapter_strength: float | None = method_option(
        None,
        "Fine-tuning strength",
        "Share of what was learned that the finished model keeps. 1: all; what is new to the base is learned "
        "better, other languages lose more. Empty: 0.85, or 0.7 where that costs the evaluation clips at "
        "most a tenth of their gain; 1 if it continues from an adapter.",
        bounds=(0.05, 1.0),
        step=0.05,
        automatic="1 = all that was learned: what is new to the base is learned better, other languages lose "
        "more. 0 = automatic: 0.85, or 0.7 where that costs the evaluation clips at most a tenth of their "
        "gain; 1 if it continues from an adapter.",
    )
    replay_share: float = method_option(
        0.0625,
        "Rehearsal windows per clip",
        "Rehearsal against forgetting: 30 s windows per clip, trained on the base model's own "
        "output. 0: none; faster, but forgets more.",
        bounds=(0.0, 1.0),
    )
    replay_data: str = method_option(
        "",
        "Rehearsal recordings",
        "Recordings for rehearsal, without texts: manifest or folder; empty: the studio's own "
        "passages in several languages.",
        is_list=True,
        names="data",
    )
    replay_augmentation: bool = method_option(
        True,
        "Vary the rehearsal",
        "Rehearsed windows are heard at other speeds, in rooms, over the telephone and in noise: other "
        "voices are forgotten less.",
    )
    distill: bool = method_option(
        False,
        "Distil for short audio",
        "Self-distillation for short clips: the base's output on padded clips is what the "
        "adapter learns, no texts needed. Several times faster on short clips.",
    )
    cache_encoder_states: bool = method_option(
        True,
        "Cache encoder outputs",
        "Keep a frozen encoder's output for each clip on disk until the run ends, if there is "
        "room: later epochs skip the encoder.",
        in_probe=False,
    )

    # schedule
    num_train_epochs: float = schedule_option(
        4.0,
        "Epochs",
        "Passes over the training data.",
        bounds=(0.01, 10_000),
        aliases=("num_epochs", "epochs"),
        for_trainer=True,
    )
    max_steps: int = schedule_option(
        -1, "Max steps", "Optimizer steps; overrides the epochs if positive.", bounds=(-1, 10**8)
    )
    per_device_train_batch_size: int = schedule_option(
        8,
        "Batch size",
        "Clips per step and GPU.",
        bounds=(1, 1024),
        aliases=("batch_size", "train_batch_size", "micro_batch_size"),
        for_trainer=True,
        in_plan=True,
    )
    per_device_eval_batch_size: int = schedule_option(
        8,
        "Batch size in evaluation",
        "Clips per step and GPU in evaluation.",
        bounds=(1, 1024),
        aliases=("eval_batch_size",),
        for_trainer=True,
        in_plan=True,
    )
    gradient_accumulation_steps: int = schedule_option(
        1,
        "Gradient accumulation",
        "Batches whose gradients are summed for one optimizer step.",
        bounds=(1, 4096),
        for_trainer=True,
        in_plan=True,
    )
    learning_rate: float | None = schedule_option(
        None,
        "Learning rate",
        "Peak learning rate; unless set, one that suits the method and the model's size.",
        bounds=(1e-9, 1.0),
        aliases=("lr",),
        step=1e-4,
        automatic="0 = automatic: by method and size of the model.",
    )
    warmup_steps: float = schedule_option(
        0.1, "Warm-up", "Steps of warm-up; below 1, a share of all steps.", bounds=(0, 10**7), in_probe=0
    )
    lr_scheduler_type: str = schedule_option(
        "linear",
        "Learning rate schedule",
        "How the learning rate decays.",
        choices=SCHEDULERS,
        for_trainer=True,
    )
    lr_scheduler_kwargs: str = schedule_option(
        "", "Scheduler arguments", 'Scheduler arguments as JSON, such as {"num_cycles": 3}; empty: defaults.'
    )
    optim: str = schedule_option(
        "adamw_torch_fused",
        "Optimizer",
        "Optimizer. adamw_bnb_8bit keeps its states in 8 bits; adafactor and sgd keep hardly any.",
        choices=OPTIMIZERS,
        for_trainer=True,
        in_plan=True,
    )
    weight_decay: float = schedule_option(
        0.0, "Weight decay", "Weight decay of the optimizer.", bounds=(0.0, 1.0), for_trainer=True
    )
    adam_beta1: float = schedule_option(
        0.9,
        "Adam beta 1",
        "AdamW: decay rate of the mean of the gradients.",
        bounds=(0.0, 0.99999),
        for_trainer=True,
    )
    adam_beta2: float = schedule_option(
        0.999,
        "Adam beta 2",
        "AdamW: decay rate of the mean of the squared gradients.",
        bounds=(0.0, 0.999999),
        for_trainer=True,
    )
    adam_epsilon: float = schedule_option(
        1e-8,
        "Adam epsilon",
        "AdamW: added to the divisor for numerical stability.",
        bounds=(1e-20, 1.0),
        for_trainer=True,
    )
    label_smoothing_factor: float = schedule_option(
        0.0,
        "Label smoothing",
        "Share of the loss that is spread over all tokens; 0.1 is common, 0 is off.",
        bounds=(0.0, 0.9),
        reteaches=True,
    )
    max_grad_norm: float = schedule_option(
        1.0, "Gradient clipping", "Gradients are clipped to this norm.", bounds=(0.0, 1e6), for_trainer=True
    )
    seed: int = schedule_option(
        42,
        "Random seed",
        "Seed of the order, dropout and new weights.",
        bounds=(0, 2**32 - 1),
        for_trainer=True,
    )

    # evaluation and saving
    eval_strategy: str = evaluation_option(
        "epoch",
        "Evaluate",
        "When to evaluate.",
        choices=STRATEGIES,
        aliases=("evaluation_strategy",),
        for_trainer=True,
        in_probe="no",
    )
    eval_steps: float = evaluation_option(
        100,
        "Evaluation interval (steps)",
        "Steps between evaluations, with eval_strategy steps; below 1, a share of all steps.",
        bounds=(1e-4, 10**8),
    )
    eval_delay: float = evaluation_option(
        0.0,
        "Evaluation delay",
        "Epochs (with eval_strategy steps: steps) before the first evaluation; the last step "
        "is always evaluated.",
        bounds=(0.0, 10**8),
        for_trainer=True,
    )
    eval_on_start: bool = evaluation_option(
        True, "Evaluate the base model first", "Evaluate the base first, to compare with.", in_probe=False
    )
    save_steps: float = evaluation_option(
        100,
        "Checkpoint interval (steps)",
        "Steps between checkpoints; below 1, a share of all steps. 0 saves at each evaluation.",
        bounds=(0, 10**8),
        in_probe=0,
    )
    save_total_limit: int = evaluation_option(
        2, "Checkpoints kept", "Checkpoints kept.", bounds=(1, 1000), for_trainer=True
    )
    logging_steps: float = evaluation_option(
        5,
        "Logging interval (steps)",
        "Steps between points of the loss curve; below 1, a share of all steps.",
        bounds=(1e-4, 10**8),
        for_trainer=True,
        in_probe=1,
    )
    metric_for_best_model: str = evaluation_option(
        "auto",
        "Best-checkpoint metric",
        "wer, cer, or auto: cer for languages written without spaces.",
        choices=METRICS,
    )
    early_stopping_patience: int = evaluation_option(
        0,
        "Early stopping (evaluations)",
        "End the run after this many evaluations without improvement; 0: never.",
        bounds=(0, 1000),
        in_probe=0,
    )
    capability_check: bool = evaluation_option(
        True,
        "Check the finished model",
        "Check at the end what fine-tuning may have broken: timestamps, long recordings, silence, languages.",
    )
    other_languages_data: str = evaluation_option(
        "",
        "Other languages or styles",
        "Manifest of other languages or another style, to check for forgetting; empty: some "
        "synthetic English.",
        is_list=True,
        names="data",
    )
    generation_max_length: int = evaluation_option(
        WINDOW_TOKENS + 1,
        "Longest text in evaluation (tokens)",
        "Longest text generated in evaluation, in tokens.",
        bounds=(1, TEXT_POSITIONS),
    )
    generation_num_beams: int = evaluation_option(
        1, "Beam size in evaluation", "Beam size in evaluation.", bounds=(1, 32)
    )

    # processes
    num_processes: int = processes_option(
        1, "Processes", "Total over all machines, one per GPU.", bounds=(1, 1024), aliases=("num_gpus",)
    )
    sharding: str = processes_option(
        "ddp",
        "Sharding",
        "What is sharded over the GPUs: ddp nothing, zero1 to zero3 (DeepSpeed) and fsdp more and more.",
        choices=SHARDINGS,
        aliases=("distributed", "distributed_type"),
    )
    num_machines: int = processes_option(
        1, "Machines", "Machines that train together.", bounds=(1, 1024), aliases=("nnodes",)
    )
    machine_rank: int = processes_option(
        0,
        "Machine rank",
        "From 0; machine 0 keeps the model.",
        bounds=(0, 1023),
        aliases=("node_rank",),
        of_machine=True,
    )
    main_process_ip: str = processes_option(
        "", "Address of machine 0", "Needed by several machines.", aliases=("master_addr",), of_machine=True
    )
    main_process_port: int = processes_option(
        29500,
        "Port of machine 0",
        "Must be open on machine 0.",
        bounds=(1, 65535),
        aliases=("master_port",),
        of_machine=True,
    )
    ddp_timeout: int = processes_option(
        1800,
        "Process timeout (s)",
        "Seconds without an answer after which a process counts as lost.",
        bounds=(1, 10**7),
        for_trainer=True,
    )

    # machine
    dataloader_num_workers: int = machine_option(
        0,
        "Data loader workers",
        "Processes that read and decode audio.",
        bounds=(0, 256),
        aliases=("num_workers",),
        for_trainer=True,
        of_machine=True,
        in_probe=0,
    )
    run_name: str = machine_option(
        "", "Name of the run", "Name of the run and of the model it makes.", of_machine=True
    )
    output_dir: str = machine_option(
        "",
        "Copy the model to",
        "Copy the finished model to this folder, too.",
        names="path",
        of_machine=True,
        in_probe="",
    )
    report_to: str = machine_option(
        "none",
        "Report to",
        "none, tensorboard, wandb or trackio; several separated by commas; all: those installed.",
        choices=TRACKERS,
        is_list=True,
        of_machine=True,
        in_probe="none",
    )
    project: str = machine_option(
        "whisper-studio",
        "Project",
        "Project name in wandb or trackio.",
        aliases=("wandb_project",),
        for_trainer=True,
    )
    local_files_only: bool = machine_option(
        False, "Never download", "Never ask the model hub.", of_machine=True
    )
    cache_dir: str = machine_option(
        "", "Cache folder", "Cache folder for downloads.", names="path", of_machine=True
    )

    def __post_init__(self) -> None:
        """Checks each value where it enters.

        Raises:
            ConfigError: names the option, what came, and what is accepted.
        """
        check(self)

    @property
    def weights(self) -> tuple[float, ...]:
        """`train_weights` as numbers; empty if there are none.

        Raises:
            ConfigError: if they are none, or not as many as manifests.
        """
        return weights_of(self)

    @property
    def trackers(self) -> tuple[str, ...]:
        """Packages that the run reports to."""
        return () if self.report_to == "none" else tuple(self.report_to.split(","))

    @property
    def downloads(self) -> dict[str, Any]:
        """Whether anything may be downloaded and where to, as whoever reads models and data takes it."""
        folder = Path(self.cache_dir) if self.cache_dir else None
        return {"local_files_only": self.local_files_only, "cache_dir": folder}

    @property
    def usual_name(self) -> str:
        """What the run is called: as it was told, else by its model and method."""
        return self.run_name or f"{Path(self.base_model).name}-{self.method}"

    @property
    def evaluation_source(self) -> str:
        """What is evaluated on; empty: a share of the training data, which is held out."""
        return self.test_data or (f"{DEMO}:validation" if self.train_data == DEMO else "")

    @property
    def lists(self) -> tuple[tuple[str, str], ...]:
        """The data for training and those for evaluation, if they are named, each with its split."""
        return tuple(pair for pair in ((self.train_data, "train"), (self.test_data, "test")) if pair[0])

    @property
    def evaluates(self) -> bool:
        """Whether the run is evaluated at all."""
        return self.eval_strategy != "no"

    @property
    def needs_texts(self) -> bool:
        """Whether clips without a text are silence; a student learns from its teacher."""
        return not self.distill

    @property
    def changes_sound(self) -> bool:
        """Whether any clip may be changed before its features are made."""
        shares = (self.speed_prob, self.volume_prob, self.resample_prob, self.noise_prob, self.reverb_prob)
        return any(shares)

    @property
    def changes_clips(self) -> bool:
        """Whether any clip, or what is taught of it, may be changed at all."""
        return bool(self.changes_sound or self.apply_spec_augment or self.condition_on_prev_probability)

    @property
    def may_keep_encoder_states(self) -> bool:
        """Whether a frozen encoder hears the same in each epoch, and what it makes of it is kept."""
        return self.cache_encoder_states and not (self.changes_clips or self.no_speech_share)

    @property
    def clips_per_step(self) -> int:
        """Clips that a process takes for an optimizer step."""
        return self.per_device_train_batch_size * self.gradient_accumulation_steps

    @property
    def is_distributed(self) -> bool:
        """Whether the run has several processes."""
        return self.num_processes > 1

    @property
    def has_machines(self) -> bool:
        """Whether the run is spread over several machines."""
        return self.num_machines > 1

    @property
    def is_sharded(self) -> bool:
        """Whether its processes divide what a step holds among them."""
        return self.is_distributed and self.sharding != "ddp"

    @property
    def is_main_machine(self) -> bool:
        """Whether the model is kept on this machine."""
        return self.machine_rank == 0

    def alone(self) -> "TrainingConfig":
        """The same in one process of one machine."""
        return replace(self, num_processes=1, num_machines=1, machine_rank=0)

    @property
    def processes_per_machine(self) -> int:
        """Processes that one machine starts."""
        return self.num_processes // self.num_machines

    @property
    def asks_for_short_audio(self) -> bool:
        """Whether short-audio mode is on whatever the clips are like."""
        return self.short_audio == "on" or self.distill

    @property
    def training_method(self) -> Method:
        """What the method trains, and how."""
        return METHODS[self.method]

    @property
    def is_adapter(self) -> bool:
        """Whether the run makes an adapter rather than a whole model."""
        return self.training_method.is_adapter

    @property
    def is_reentrant(self) -> bool:
        """The variant of checkpointing: non-reentrant keeps the input of each 8-bit layer."""
        if self.use_reentrant == "auto":
            return self.quantization == "8bit"
        return self.use_reentrant == "true"


FIELDS: dict[str, Field[Any]] = {f.name: f for f in fields(TrainingConfig)}
"""Options by name, in the order of the schema."""


def bounds_of(name: str) -> tuple[float, float]:
    """Least and greatest value of an option that is a number."""
    bounds: tuple[float, float] = FIELDS[name].metadata["bounds"]
    return bounds
