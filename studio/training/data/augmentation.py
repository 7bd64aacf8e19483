"""Augmentation of training clips: speed, band width, echo, noise, loudness, and masks in the features.

What is done to a clip follows from the seed, the epoch and the clip's number alone: a resumed run does the
same as an unbroken one, whatever process reads the clip. Sounds are mono float32 at 16 kHz, (samples,).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE, SOUND_FILES, read_audio
from studio.errors import AudioError, ConfigError, StudioError, in_short
from studio.files import files_below, read_json, user_path
from studio.messages import Message
from studio.options.arguments import config_from_dict, config_to_dict
from studio.options.training import TrainingConfig
from studio.settings import Settings
from studio.transcription.windows import WINDOW_SECONDS

Samples = NDArray[np.float32]

_LISTENED_TO_SECONDS = 1.0
"""Of a file of noise, to know whether it can be read."""
_TELEPHONE: tuple[int, ...] = (8000,)
_LEAST_TIME_MASKS, _LEAST_FEATURE_MASKS = 2, 0
"""`mask_time_min_masks` and `mask_feature_min_masks` of `WhisperConfig`."""
_REVERBERATION_SECONDS = (0.1, 0.6)
"""RT60: a furnished room to a bare one."""
_FOREIGN: Mapping[tuple[str, str], str] = {
    ("speed", "min_speed_rate"): "min_speed_rate",
    ("speed", "max_speed_rate"): "max_speed_rate",
    ("volume", "min_gain_dBFS"): "min_gain_db",
    ("volume", "max_gain_dBFS"): "max_gain_db",
    ("noise", "min_snr_dB"): "min_snr_db",
    ("noise", "max_snr_dB"): "max_snr_db",
    ("noise", "noise_dir"): "noise_dir",
}
"""Type and parameter of an `augment_config_path` file → option of `TrainingConfig`."""
_WITHOUT_EFFECT = frozenset({"shift"})
"""A shift by milliseconds is below the grid of the time tokens and of the features."""
_OWN_PARAMETERS = frozenset({("speed", "num_rates"), ("resample", "new_sample_rates")})
_MOST_SPEEDS, _LOWEST_RATE = 1000, 1000


@dataclass(frozen=True)
class Draw:
    """What chance decided for one clip in one epoch."""

    entropy: tuple[int, ...]
    """Seeds the generator: seed, epoch, number of the clip."""
    speed: float = 1.0
    """Decided beforehand, because the times of a label change with it."""
    with_previous: bool = False
    """Whether the clip is taught with the text before it."""
    by: "Augmentation | None" = None
    """Who changes the clip; None: the augmentation of the run."""


@dataclass(frozen=True)
class Augmentation:
    """Turns a clip into one that could as well have been recorded."""

    config: TrainingConfig
    num_rates: int = 0
    """So many speeds from the slowest to the fastest; 0: any in between."""
    sample_rates: tuple[int, ...] = _TELEPHONE
    """Band widths: the clip is brought to one of these rates and back."""
    noises: tuple[Path, ...] = field(default=())
    """Files of `noise_dir`."""

    @classmethod
    def of(cls, config: TrainingConfig, settings: Settings) -> "Augmentation":
        """The augmentation that the options ask for; `augment_config_path` is read and wins over them.

        Raises:
            ConfigError: if the file or `noise_dir` cannot be used.
        """
        rates, bands = 0, _TELEPHONE
        if config.augment_config_path:
            config, rates, bands = _with_foreign_options(config, settings)
        return cls(config, rates, bands, _noise_files(config))

    def with_readable_noises(self, warn: Callable[[Message], None]) -> "Augmentation":
        """Without the files of noise that cannot be read: `warn` is told.

        Raises:
            ConfigError: if none can.
        """
        problems: dict[Path, AudioError] = {}
        for path in self.noises:
            try:
                read_audio(path, None, _LISTENED_TO_SECONDS)
            except AudioError as error:
                problems[path] = error
        noises = tuple(path for path in self.noises if path not in problems)
        if problems:
            _require(noises, self.config)
            reason = next(iter(problems.values()))
            warn(
                Message(
                    "{count} files of noise_dir are left out: {reason}", count=len(problems), reason=reason
                )
            )
        return replace(self, noises=noises)

    def draw(self, epoch: int, number: int, seconds: float) -> Draw:
        """Decides for clip `number` of `seconds` in `epoch`; a clip never becomes longer than a window."""
        entropy = (self.config.seed, epoch, number)
        rng = np.random.default_rng((*entropy, 0))
        low, high = self.config.min_speed_rate, self.config.max_speed_rate
        chosen = rng.random() < self.config.speed_prob
        with_previous = (
            np.random.default_rng((*entropy, 4)).random() < self.config.condition_on_prev_probability
        )
        speed = float(
            rng.choice(np.linspace(low, high, self.num_rates)) if self.num_rates else rng.uniform(low, high)
        )
        return Draw(entropy, speed if chosen and seconds / speed <= WINDOW_SECONDS else 1.0, with_previous)

    def change(self, audio: Samples, draw: Draw) -> Samples:
        """The sound of a clip as `draw` wants it."""
        rng = np.random.default_rng((*draw.entropy, 1))
        options = self.config
        if draw.speed != 1.0:
            audio = at_speed(audio, draw.speed)
        if rng.random() < options.resample_prob:
            audio = band_limited(audio, int(rng.choice(self.sample_rates)))
        if rng.random() < options.reverb_prob:
            audio = in_room(audio, rng.uniform(*_REVERBERATION_SECONDS), rng)
        if rng.random() < options.noise_prob:
            snr_db = rng.uniform(options.min_snr_db, options.max_snr_db)
            audio = with_noise(audio, self._noise(len(audio), rng), snr_db)
        if rng.random() < options.volume_prob:
            gain = 10 ** (rng.uniform(options.min_gain_db, options.max_gain_db) / 20)
            audio = np.clip(audio * np.float32(gain), -1.0, 1.0)
        return audio

    def mask(self, features: NDArray[np.float16], draw: Draw) -> NDArray[np.float16]:
        """SpecAugment (Park et al. 2019): stretches of frames, then of mel bins, of (mel bins, frames) are 0.

        How many, and their value, are as in `WhisperModel._mask_input_features`; only frames of the clip
        itself are masked, never its padding.
        """
        if not self.config.apply_spec_augment:
            return features
        rng = np.random.default_rng((*draw.entropy, 2))
        masked = features.copy()
        bins, frames = features.shape
        options = self.config
        in_time = options.mask_time_prob, options.mask_time_length, _LEAST_TIME_MASKS
        for start, end in _spans(frames, *in_time, rng):
            masked[:, start:end] = 0
        in_bins = options.mask_feature_prob, options.mask_feature_length, _LEAST_FEATURE_MASKS
        for start, end in _spans(bins, *in_bins, rng):
            masked[start:end] = 0
        return masked

    def no_speech(self, number: int, draw: Draw | None, seconds: float) -> Samples:
        """A clip in which nobody speaks: a recording of `noise_dir`, else silence or hiss."""
        rng = np.random.default_rng((*(draw.entropy if draw else (self.config.seed, 0, number)), 3))
        samples = int(seconds * SAMPLING_RATE)
        if self.noises:
            return self._noise(samples, rng)
        if rng.random() < 0.25:
            return np.zeros(samples, np.float32)
        level = 10 ** (rng.uniform(-70, -30) / 20)
        hiss = rng.standard_normal(samples).astype(np.float32)
        if rng.random() < 0.5:  # brown rather than white: rooms and fans hum low
            hiss = np.cumsum(hiss - hiss.mean(), dtype=np.float64).astype(np.float32)
        return hiss * np.float32(level / (hiss.std() or 1.0))

    def _noise(self, samples: int, rng: np.random.Generator) -> Samples:
        if not self.noises:
            return rng.standard_normal(samples).astype(np.float32)
        noise = _sound_of(self.noises[int(rng.integers(len(self.noises)))])
        start = int(rng.integers(len(noise)))
        return np.take(noise, np.arange(start, start + samples), mode="wrap")


def at_speed(audio: Samples, rate: float) -> Samples:
    """The clip played `rate` times as fast, pitch and all (Ko et al. 2015, Audio augmentation for speech)."""
    import soxr

    return np.asarray(soxr.resample(audio, SAMPLING_RATE * rate, SAMPLING_RATE), np.float32)


def band_limited(audio: Samples, rate: int) -> Samples:
    """The clip as a line of that sampling rate would carry it; 8000 is a telephone."""
    import soxr

    if rate >= SAMPLING_RATE:
        return audio
    narrow = soxr.resample(audio, SAMPLING_RATE, rate)
    return np.asarray(soxr.resample(narrow, rate, SAMPLING_RATE), np.float32)[: len(audio)]


def in_room(audio: Samples, rt60_seconds: float, rng: np.random.Generator) -> Samples:
    """The clip in a room whose echo falls by 60 dB in `rt60_seconds`, as loud as before.

    The room is Polack's: white noise that decays exponentially, behind the direct sound.
    """
    from scipy.signal import fftconvolve

    times = np.arange(int(rt60_seconds * SAMPLING_RATE)) / SAMPLING_RATE
    tail = rng.standard_normal(len(times)) * 10 ** (-3 * times / rt60_seconds)
    response = tail / np.sqrt(np.sum(tail**2)) * rng.uniform(0.2, 0.8)
    response[0] = 1.0
    heard = fftconvolve(audio, response.astype(np.float32))[: len(audio)]
    energy = float(np.sum(heard**2))
    return (heard * np.sqrt(float(np.sum(audio**2)) / energy)).astype(np.float32) if energy else audio


def with_noise(audio: Samples, noise: Samples, snr_db: float) -> Samples:
    """The clip with noise that is `snr_db` decibels weaker than it."""
    power, noise_power = float(np.mean(audio**2)), float(np.mean(noise**2))
    if not power or not noise_power:
        return audio
    scale = np.sqrt(power / noise_power / 10 ** (snr_db / 10))
    return (audio + noise * np.float32(scale)).astype(np.float32)


def _spans(
    length: int, prob: float, span: int, least: int, rng: np.random.Generator
) -> list[tuple[int, int]]:
    if not prob or length <= span:
        return []
    count = max(int(prob * length / span + rng.random()), least)
    starts = rng.choice(length - span + 1, size=min(count, length // span), replace=False)
    return [(int(start), int(start) + span) for start in starts]


def _noise_files(config: TrainingConfig) -> tuple[Path, ...]:
    if not config.noise_dir:
        return ()
    every = files_below(user_path(config.noise_dir), SOUND_FILES)
    found = tuple(path for path in every if not path.name.startswith("."))  # "._x.wav" of a Mac is no sound
    _require(found, config)
    return found


def _require(noises: Sequence[Path], config: TrainingConfig) -> None:
    if not noises:
        raise ConfigError(
            "noise_dir {folder} has no sound file that can be read: name a folder with recordings of noise, "
            "or none.",
            folder=user_path(config.noise_dir),
        )


@lru_cache(maxsize=64)
def _sound_of(path: Path) -> Samples:
    return read_audio(path, None, 120.0)


def _with_foreign_options(
    config: TrainingConfig, settings: Settings
) -> tuple[TrainingConfig, int, tuple[int, ...]]:
    """Options, number of speeds and sampling rates as a list of `{type, params, prob}` has them."""
    path = user_path(config.augment_config_path)
    try:
        options, rates, bands = _translated(_steps_in(path), path.absolute().parent, settings)
        if not (0 <= rates <= _MOST_SPEEDS and bands and all(rate >= _LOWEST_RATE for rate in bands)):
            raise ConfigError(
                "num_rates is 0 to {most}, each of new_sample_rates {low} Hz or more.",
                most=_MOST_SPEEDS,
                low=_LOWEST_RATE,
            )
        return config_from_dict({**config_to_dict(config), **options}), rates, bands
    except StudioError as error:
        raise ConfigError(
            "augment_config_path {path} cannot be used: {reason} It must be a JSON list of "
            '{{"type": "noise", "params": {{…}}, "prob": 0.5}}; types: noise, resample, speed, volume.',
            path=path,
            reason=error.message(),
        ) from error


def _steps_in(path: Path) -> list[dict[str, Any]]:
    try:
        steps = read_json(path)
    except FileNotFoundError as error:
        raise ConfigError("There is no such file.") from error
    except (OSError, ValueError) as error:
        raise ConfigError("It cannot be read as JSON.") from error
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise ConfigError("It is no list of objects with type, params and prob.")
    return steps


def _translated(
    steps: list[dict[str, Any]], beside: Path, settings: Settings
) -> tuple[dict[str, Any], int, tuple[int, ...]]:
    options: dict[str, Any] = {}
    rates, bands = 0, _TELEPHONE
    for step in steps:
        kind = str(step.get("type"))
        if kind in _WITHOUT_EFFECT:
            continue
        if kind not in ("speed", "volume", "resample", "noise"):
            raise ConfigError("There is no type {kind!r}.", kind=in_short(kind))
        try:
            parameters = dict(step.get("params") or {})
            options[f"{kind}_prob"] = float(step.get("prob", 1.0))
            if kind == "speed":
                rates = int(parameters.get("num_rates") or 0)
            if kind == "resample":
                bands = tuple(int(rate) for rate in parameters.get("new_sample_rates", bands))
        except (ValueError, TypeError, OverflowError) as error:
            raise ConfigError("{step} holds a value of the wrong kind.", step=in_short(step)) from error
        for name, value in parameters.items():
            if (kind, name) in _FOREIGN:
                options[_FOREIGN[kind, name]] = value
            elif (kind, name) not in _OWN_PARAMETERS:
                raise ConfigError("{kind} has no parameter {name!r}.", kind=kind, name=in_short(name))
    if noise_dir := str(options.get("noise_dir") or ""):
        folder = settings.working_dir.absolute() / user_path(noise_dir)
        if settings.on_spaces and not folder.resolve().is_relative_to(beside.resolve()):
            raise ConfigError(
                "On a Space, noise_dir is in the folder of this file, and {folder} is not.", folder=noise_dir
            )
        # As there: without recordings, noise is white.
        options["noise_dir"] = str(folder) if folder.is_dir() else ""
    return options, rates, bands
