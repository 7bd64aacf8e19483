"""`TrainingConfig`: the one schema behind the form, the command line, the YAML file and the preview.

Names are those of `Seq2SeqTrainingArguments` and `LoraConfig`; each field documents itself through its
metadata (`help`, `group`, `choices`, `aliases`), which the command line, the form and the README derive from.
This module imports nothing heavy.
"""

from dataclasses import dataclass

from studio.memory import plan as memory_plan
from studio.training.checks import check, weights_of
from studio.training.option import option
from studio.training.schedulers import SCHEDULERS
from studio.training.source_options import SourceOptions

METHODS = memory_plan.METHODS
QUANTIZATIONS = memory_plan.QUANTIZATIONS
ALL_LINEAR = memory_plan.ALL_LINEAR
PRECISIONS = ("auto", *memory_plan.PRECISIONS)
BASE_DTYPES = ("auto", *memory_plan.DTYPES)
ATTENTIONS = ("auto", *memory_plan.ATTENTIONS)
REENTRANT = ("auto", "true", "false")
SHORT_AUDIO = ("auto", "on", "off")
STRATEGIES = ("epoch", "steps", "no")


@dataclass(frozen=True)
class TrainingConfig(SourceOptions):
    """Everything that decides what a run does. Checked when made: a value out of range is a `ConfigError`."""

    # method
    method: str = option("lora", "method", "Which weights are trained.", choices=METHODS)
    lora_r: int = option(32, "method", "Rank of the adapter.", aliases=("lora_rank",))
    lora_alpha: int = option(64, "method", "Scale of the adapter, divided by its rank.")
    lora_dropout: float = option(0.05, "method", "Dropout before the adapter.")
    target_modules: tuple[str, ...] = option(
        ALL_LINEAR,
        "method",
        "Linear layers that get an adapter, separated by commas; all-linear for all.",
        aliases=("lora_target_modules",),
    )
    adapter: str = option(
        "",
        "method",
        "Adapter to go on training from: registry id or folder. Its method, rank and layers are taken over.",
        aliases=("adapter_name_or_path", "init_adapter"),
    )
    quantization: str = option("none", "method", "Bits of the frozen base.", choices=QUANTIZATIONS)
    precision: str = option(
        "auto",
        "method",
        "Arithmetic of the training step; auto takes the best of the machine. pure_bf16 holds weights that "
        "are trained in bf16, too.",
        choices=PRECISIONS,
        aliases=("mixed_precision",),
    )
    base_dtype: str = option(
        "auto",
        "method",
        "Type in which the base model is held; auto: that of the arithmetic where it is frozen, else fp32.",
        choices=BASE_DTYPES,
        aliases=("torch_dtype", "dtype"),
    )
    attn_implementation: str = option(
        "auto",
        "method",
        "Kernel of attention; auto takes sdpa. eager takes more than twice the memory.",
        choices=ATTENTIONS,
    )
    gradient_checkpointing: bool = option(
        False,
        "method",
        "Compute activations again in the backward pass instead of keeping them.",
        aliases=("activation_checkpointing",),
    )
    loss_chunk_size: int = option(
        256,
        "method",
        "Tokens whose logits exist at once; the loss stays the same. 0 computes all of them at once.",
    )
    use_reentrant: str = option(
        "auto",
        "method",
        "Variant of checkpointing; auto is true for an 8-bit base, where the other keeps each layer's input.",
        choices=REENTRANT,
    )
    torch_compile: bool = option(
        False,
        "method",
        "Compile the model: slower to begin, then faster. Its memory is estimated as without.",
        aliases=("use_compile",),
    )
    short_audio: str = option(
        "auto",
        "method",
        "Let the encoder see each batch's own length instead of 30 seconds, in training and afterwards: "
        "faster and smaller on short clips. auto decides by the clips' lengths and the number of steps.",
        choices=SHORT_AUDIO,
    )
    padded_share: float = option(
        0.0,
        "method",
        "In short-audio mode, the share of batches that is padded to 30 seconds. Rehearsed windows keep the "
        "model good at those for less.",
    )

    adapter_strength: float | None = option(
        None,
        "method",
        "How much of what the adapter learned is kept, 1: all. A little less forgets far less. Empty: 0.85 "
        "of a new adapter.",
    )
    replay_share: float = option(
        0.125,
        "method",
        "For each clip so many windows of 30 seconds in which the run rehearses what the base reads, so that "
        "it keeps what it is not taught. 0: none; quicker, and more forgetful.",
    )
    replay_data: str = option(
        "",
        "method",
        "Recordings to rehearse, without texts: manifest or folder; empty: passages in several languages "
        "that come with the studio.",
    )

    distill: bool = option(
        False,
        "method",
        "Teach the base to read short clips as it reads them padded: it is its own teacher, no texts are "
        "needed, and the adapter makes it faster on short clips.",
    )

    cache_encoder_states: bool = option(
        True,
        "method",
        "Keep on disk what a frozen encoder makes of each clip, as long as there is room, until the run is "
        "finished: later epochs do without it.",
    )

    # schedule
    num_train_epochs: float = option(4.0, "schedule", "Passes over the training data.")
    max_steps: int = option(-1, "schedule", "Optimizer steps; overrides the epochs if positive.")
    per_device_train_batch_size: int = option(8, "schedule", "Clips a step and device.")
    per_device_eval_batch_size: int = option(8, "schedule", "Clips a step and device in evaluation.")
    gradient_accumulation_steps: int = option(1, "schedule", "Steps whose gradients are added up.")
    learning_rate: float | None = option(
        None, "schedule", "Peak learning rate; unless set, one that suits the method and the model's size."
    )
    warmup_steps: float = option(0.1, "schedule", "Steps of warm-up; below 1, a share of all steps.")
    lr_scheduler_type: str = option("linear", "schedule", "How the learning rate falls.", choices=SCHEDULERS)
    lr_scheduler_kwargs: str = option(
        "",
        "schedule",
        'Values of the scheduler as JSON, such as {"num_cycles": 3}; empty: sensible ones.',
    )
    optim: str = option(
        "adamw_torch_fused",
        "schedule",
        "Optimizer. adamw_bnb_8bit keeps its states in 8 bits; adafactor and sgd keep hardly any.",
        choices=memory_plan.OPTIMIZERS,
    )
    weight_decay: float = option(0.0, "schedule", "Weight decay of the optimizer.")
    adam_beta1: float = option(0.9, "schedule", "How long AdamW remembers the direction of the gradients.")
    adam_beta2: float = option(0.999, "schedule", "How long AdamW remembers the size of the gradients.")
    adam_epsilon: float = option(1e-8, "schedule", "Least size of the gradients by which AdamW divides.")
    label_smoothing_factor: float = option(
        0.0, "schedule", "Share of the loss that is spread over all tokens; 0.1 is common, 0 is off."
    )
    max_grad_norm: float = option(1.0, "schedule", "Gradients are clipped to this norm.")
    seed: int = option(42, "schedule", "Seed of the order, dropout and new weights.")

    # evaluation and saving
    eval_strategy: str = option(
        "epoch", "evaluation", "When to evaluate.", choices=STRATEGIES, aliases=("evaluation_strategy",)
    )
    eval_steps: int = option(100, "evaluation", "Steps between evaluations, with eval_strategy steps.")
    eval_delay: float = option(
        0.0,
        "evaluation",
        "Epochs, or with eval_strategy steps steps, before the first evaluation; the last step is always "
        "evaluated.",
    )
    eval_on_start: bool = option(True, "evaluation", "Evaluate the base first, to compare with.")
    save_steps: int = option(100, "evaluation", "Steps between checkpoints; 0 saves at each evaluation.")
    save_total_limit: int = option(2, "evaluation", "Checkpoints kept.")
    logging_steps: int = option(5, "evaluation", "Steps between points of the loss curve.")
    metric_for_best_model: str = option(
        "auto",
        "evaluation",
        "wer, cer, or auto: cer for languages written without spaces.",
        choices=("auto", "wer", "cer"),
    )
    early_stopping_patience: int = option(
        0, "evaluation", "End the run after this many evaluations without an improvement; 0 never does."
    )
    capability_check: bool = option(
        True,
        "evaluation",
        "Check at the end what tuning may have broken: times, long recordings, silence, languages.",
    )
    other_languages_data: str = option(
        "",
        "evaluation",
        "Manifest of something else (other languages, or another style), to check that it is kept; empty: "
        "some synthetic English.",
    )
    generation_max_length: int = option(225, "evaluation", "Longest text generated in evaluation, in tokens.")
    generation_num_beams: int = option(1, "evaluation", "Beams in evaluation.")

    num_processes: int = option(1, "processes", "On all machines together, one a GPU.", aliases=("num_gpus",))
    sharding: str = option(
        "ddp",
        "processes",
        "What they divide: ddp nothing, zero1 to zero3 (DeepSpeed) and fsdp more and more.",
        choices=memory_plan.SHARDINGS,
        aliases=("distributed", "distributed_type"),
    )
    num_machines: int = option(1, "processes", "Machines that train together.", aliases=("nnodes",))
    machine_rank: int = option(0, "processes", "From 0; 0 keeps the model.", aliases=("node_rank",))
    main_process_ip: str = option("", "processes", "Needed by several machines.", aliases=("master_addr",))
    main_process_port: int = option(
        29500, "processes", "Must be open on machine 0.", aliases=("master_port",)
    )
    ddp_timeout: int = option(1800, "processes", "Seconds of silence after which a process is given up.")

    dataloader_num_workers: int = option(
        0, "machine", "Processes that read and decode audio.", aliases=("num_workers",)
    )
    run_name: str = option("", "machine", "Name of the run and of the model it makes.")
    output_dir: str = option("", "machine", "Copy the finished model to this folder, too.")
    report_to: str = option(
        "none",
        "machine",
        "none, tensorboard, wandb or trackio.",
        choices=("none", "tensorboard", "wandb", "trackio"),
    )
    project: str = option(
        "whisper-studio",
        "machine",
        "Project under which wandb or trackio file the run.",
        aliases=("wandb_project",),
    )
    local_files_only: bool = option(False, "machine", "Never ask the model hub.")
    cache_dir: str = option("", "machine", "Cache folder for downloads.")

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
    def processes_per_machine(self) -> int:
        """Processes that one machine starts."""
        return self.num_processes // self.num_machines

    @property
    def asks_for_short_audio(self) -> bool:
        """Whether short-audio mode is on whatever the clips are like."""
        return self.short_audio == "on" or self.distill

    @property
    def is_adapter(self) -> bool:
        """Whether the run makes an adapter rather than a whole model."""
        return self.method in ("lora", "dora", "adalora")

    @property
    def is_reentrant(self) -> bool:
        """The variant of checkpointing: non-reentrant keeps the input of each 8-bit layer."""
        if self.use_reentrant == "auto":
            return self.quantization == "8bit"
        return self.use_reentrant == "true"
