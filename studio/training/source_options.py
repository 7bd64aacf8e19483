"""What a run starts from: the model, the clips, and what is done to them. A part of `TrainingConfig`."""

from dataclasses import dataclass

from studio.training.option import option

TASKS = ("transcribe", "translate")
NORMALIZERS = ("none", "lowercase", "basic", "english", "chinese", "no_punctuation")


@dataclass(frozen=True)
class SourceOptions:
    """Each option documents itself; `TrainingConfig` checks them."""

    base_model: str = option(
        "demo",
        "model",
        "Model to start from: registry id, folder or Hub id.",
        aliases=("model_name_or_path",),
    )
    train_data: str = option(
        "demo",
        "data",
        "Training manifest, audio folder or Hub dataset; several are separated by commas.",
        aliases=("train_file",),
    )
    test_data: str = option(
        "",
        "data",
        "Manifest for evaluation; empty keeps a share of the training data back.",
        aliases=("validation_file",),
    )
    train_weights: str = option(
        "",
        "data",
        "Shares of several training manifests in an epoch, such as 0.7,0.3; empty: by their sizes.",
    )
    audio_column: str = option(
        "",
        "data",
        "Column with the sounds; empty: audio, path, or as it is called elsewhere.",
        aliases=("audio_column_name",),
    )
    text_column: str = option(
        "",
        "data",
        "Column with the texts; empty: text, sentence, or as it is called elsewhere.",
        aliases=("text_column_name",),
    )
    validation_share: float = option(0.1, "data", "Share kept back when there is no evaluation manifest.")
    max_train_samples: int | None = option(None, "data", "Use at most this many training clips.")
    max_eval_samples: int | None = option(
        None, "data", "Use at most this many evaluation clips.", aliases=("max_validation_samples",)
    )
    min_audio_len: float = option(
        0.2, "data", "Shortest clip used, in seconds.", aliases=("min_duration_in_seconds",)
    )
    max_audio_len: float = option(
        30.0, "data", "Longest clip used, in seconds.", aliases=("max_duration_in_seconds",)
    )
    language: str = option(
        "auto", "data", "Language of the clips, name or code; auto takes each row's, or detects it."
    )
    task: str = option("transcribe", "data", "What the model should learn.", choices=TASKS)
    timestamps: bool = option(
        True,
        "data",
        "Train half of the clips whose segment times are known with those times, as Whisper was.",
        aliases=("return_timestamps",),
    )
    make_timestamps: bool = option(
        False,
        "data",
        "Have the base model time texts without segments, and keep its times where its words are the text's.",
    )
    pack_clips: bool = option(
        False, "data", "Put short clips together to windows of up to max_audio_len, with times between them."
    )
    condition_on_prev_probability: float = option(
        0.0, "data", "Share of clips with known previous text that are taught with it as their prompt."
    )
    normalizer: str = option("none", "data", "Normalisation applied to labels.", choices=NORMALIZERS)
    no_speech_share: float = option(
        0.0,
        "data",
        "Share of clips without speech among the training clips: silence then gives nothing.",
    )

    # augmentation
    apply_spec_augment: bool = option(
        False, "augmentation", "Mask stretches of the features (SpecAugment), as mask_… say."
    )
    mask_time_prob: float = option(0.05, "augmentation", "Share of the frames that is masked.")
    mask_time_length: int = option(10, "augmentation", "Frames (10 ms each) of one mask.")
    mask_feature_prob: float = option(0.0, "augmentation", "Share of the mel bins that is masked.")
    mask_feature_length: int = option(10, "augmentation", "Mel bins of one mask.")
    speed_prob: float = option(0.0, "augmentation", "Share of clips that are played slower or faster.")
    min_speed_rate: float = option(0.9, "augmentation", "Slowest speed.")
    max_speed_rate: float = option(1.1, "augmentation", "Fastest speed.")
    noise_prob: float = option(0.0, "augmentation", "Share of clips that get noise.")
    min_snr_db: float = option(10.0, "augmentation", "Loudest noise: signal-to-noise ratio in dB.")
    max_snr_db: float = option(50.0, "augmentation", "Faintest noise: signal-to-noise ratio in dB.")
    noise_dir: str = option("", "augmentation", "Folder with recordings of noise; empty: white noise.")
    reverb_prob: float = option(0.0, "augmentation", "Share of clips that get the echo of a room.")
    resample_prob: float = option(0.0, "augmentation", "Share of clips that sound as on a telephone (8 kHz).")
    volume_prob: float = option(0.0, "augmentation", "Share of clips that are made louder or softer.")
    min_gain_db: float = option(-15.0, "augmentation", "Softest: gain in dB.")
    max_gain_db: float = option(15.0, "augmentation", "Loudest: gain in dB.")
    augment_config_path: str = option(
        "", "augmentation", "JSON list of {type, params, prob}, which wins over the options above."
    )
