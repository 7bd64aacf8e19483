"""Clips changed by chance: each change is what it says, and chance follows from seed, epoch and number."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from transformers import WhisperFeatureExtractor

from studio.errors import ConfigError
from studio.options.arguments import parse_training_arguments
from studio.options.training import TrainingConfig
from studio.training.data.augmentation import Augmentation, Draw, at_speed, band_limited, in_room, with_noise
from studio.training.data.clips import Clip, with_draw
from studio.training.data.collator import ClipDataset, FeatureSource
from studio.translation import said
from tests.micro import make_tones
from tests.reading import augmentation_of, read_manifest
from tests.unit.training.attempts import Runs, assert_same_weights, losses

ALL: dict[str, Any] = {
    **{f"{change}_prob": 0.7 for change in ("speed", "noise", "reverb", "resample", "volume")},
    "apply_spec_augment": True,
    "mask_feature_prob": 0.1,
    "no_speech_share": 0.2,
}
TIMES = np.arange(16_000) / 16_000
TONE = (0.3 * np.sin(2 * np.pi * 400 * TIMES)).astype(np.float32)


@pytest.fixture
def clip(tmp_path: Path) -> Clip:
    example = read_manifest(make_tones(tmp_path, count=1)).examples[0]
    return Clip(example, "en", "transcribe", (1, 2, 3), (100, 110, 9, 150))


def loudest_hz(audio: np.ndarray[Any, Any]) -> float:
    return float(np.argmax(np.abs(np.fft.rfft(audio))) * 16_000 / len(audio))


def test_a_faster_clip_is_shorter_and_higher() -> None:
    fast = at_speed(TONE, 1.25)
    assert abs(len(fast) - 12_800) <= 1
    assert loudest_hz(fast) == pytest.approx(500, abs=2)


def test_noise_is_as_much_weaker_as_said() -> None:
    noise = np.random.default_rng(0).standard_normal(len(TONE)).astype(np.float32)
    added = with_noise(TONE, noise, 20.0) - TONE
    assert 10 * np.log10(np.mean(TONE**2) / np.mean(added**2)) == pytest.approx(20, abs=0.1)


def test_a_telephone_carries_nothing_above_four_kilohertz() -> None:
    noise = np.random.default_rng(0).standard_normal(16_000).astype(np.float32)
    spectrum = np.abs(np.fft.rfft(band_limited(noise, 8000)))
    assert spectrum[4200:].mean() < 0.01 * spectrum[:3800].mean()


def test_an_echo_goes_on_after_the_sound_and_keeps_its_loudness() -> None:
    click = np.zeros(16_000, np.float32)
    click[:160] = 0.5
    heard = in_room(click, 0.4, np.random.default_rng(0))
    assert np.abs(heard[400:3000]).mean() > 1e-3 > np.abs(heard[9000:]).mean()
    assert np.sum(heard**2) == pytest.approx(np.sum(click**2), rel=1e-3)


def test_the_same_seed_epoch_and_number_give_the_same_sound() -> None:
    augmentation = Augmentation(TrainingConfig(**ALL))
    draws = [augmentation.draw(epoch, number, 1.0) for epoch, number in ((0, 1), (0, 1), (1, 1), (0, 2))]
    sounds = [augmentation.change(TONE, draw) for draw in draws]
    assert np.array_equal(sounds[0], sounds[1])
    assert not any(np.array_equal(sounds[0], other) for other in sounds[2:])


@pytest.mark.parametrize("prob", [0.05, 0.1, 0.3])
def test_masks_cover_as_many_mel_bins_as_are_asked_for(prob: float) -> None:
    options = TrainingConfig(apply_spec_augment=True, mask_time_prob=0.0, mask_feature_prob=prob)
    augmentation, features = Augmentation(options), np.ones((80, 100), np.float16)
    masked = [augmentation.mask(features, Draw((1, 2, number))) == 0 for number in range(1000)]
    assert np.mean(masked) == pytest.approx(prob, rel=0.15)  # masks may lie on each other


def test_masks_cover_the_share_asked_for_and_nothing_of_the_kept_features(clip: Clip) -> None:
    augmentation = Augmentation(TrainingConfig(apply_spec_augment=True, mask_time_prob=0.3))
    source = FeatureSource(WhisperFeatureExtractor(), keep=True, augmentation=augmentation)
    plain = source(clip).copy()
    masked = source(replace(clip, draw=augmentation.draw(0, 0, 1.0)))
    frames = (masked == 0).all(axis=0)
    assert 0.2 <= frames.mean() <= 0.4
    assert np.array_equal(masked[:, ~frames], plain[:, ~frames])
    assert np.array_equal(source(clip), plain)


def test_times_of_a_label_follow_the_speed(clip: Clip) -> None:
    augmentation = Augmentation(TrainingConfig(speed_prob=1.0, min_speed_rate=2.0, max_speed_rate=2.0))
    drawn = with_draw(clip, augmentation.draw(0, 0, 1.0), first_time=100)
    assert drawn.timed_labels == (100, 105, 9, 125)
    assert drawn.labels == clip.labels


def test_a_clip_is_never_slowed_beyond_a_window() -> None:
    augmentation = Augmentation(TrainingConfig(speed_prob=1.0, min_speed_rate=0.5, max_speed_rate=0.5))
    assert augmentation.draw(0, 0, 14.0).speed == 0.5
    assert augmentation.draw(0, 0, 16.0).speed == 1.0


def test_each_epoch_is_another_one_and_can_be_had_again(clip: Clip) -> None:
    dataset = ClipDataset([clip], Augmentation(TrainingConfig(speed_prob=1.0)), 100)
    first = dataset[0]
    dataset.begin_epoch(1)
    assert dataset[0].draw != first.draw
    dataset.begin_epoch(0)
    assert dataset[0].draw == first.draw


def test_the_file_of_whisper_finetune_is_read(tmp_path: Path) -> None:
    path = tmp_path / "augmentation.json"
    noises = tmp_path / "noise"
    noises.mkdir()
    soundfile.write(noises / "hum.wav", TONE, 16_000)
    loudness = {"min_snr_dB": 5, "max_snr_dB": 9, "noise_dir": str(noises)}
    steps = [
        {"type": "noise", "params": loudness, "prob": 0.25},
        {"type": "resample", "params": {"new_sample_rates": [8000, 44100]}, "prob": 0.5},
        {"type": "speed", "params": {"min_speed_rate": 0.8, "max_speed_rate": 1.2, "num_rates": 3}},
        {"type": "shift", "params": {"min_shift_ms": -5, "max_shift_ms": 5}, "prob": 1.0},
        {"type": "volume", "params": {"min_gain_dBFS": -3, "max_gain_dBFS": 3}, "prob": 1.0},
    ]
    path.write_text(json.dumps(steps), encoding="utf-8")
    config, notes = parse_training_arguments([f"--augment_config_path={path}", "--seed", "3"])
    made = augmentation_of(config)
    assert notes == []
    assert (made.config.noise_prob, made.config.min_snr_db, made.config.volume_prob) == (0.25, 5, 1.0)
    assert made.sample_rates == (8000, 44100) and [path.name for path in made.noises] == ["hum.wav"]
    speeds = {round(made.draw(0, number, 1.0).speed, 3) for number in range(40)}
    assert speeds == {0.8, 1.0, 1.2}


def test_a_folder_of_noise_counts_from_where_the_run_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "noise").mkdir()
    soundfile.write(tmp_path / "noise" / "hum.wav", TONE, 16_000)
    path = tmp_path / "augmentation.json"
    path.write_text(json.dumps([{"type": "noise", "params": {"noise_dir": "noise"}}]), encoding="utf-8")
    assert augmentation_of(TrainingConfig(augment_config_path=str(path))).noises == (), "white noise"
    monkeypatch.setenv("STUDIO_WORKING_DIR", str(tmp_path))
    (hum,) = augmentation_of(TrainingConfig(augment_config_path=str(path))).noises
    monkeypatch.setenv("SPACE_ID", "ada/studio")
    assert augmentation_of(TrainingConfig(augment_config_path=str(path))).noises == (hum,)
    elsewhere = tmp_path / "visitor" / "augmentation.json"
    elsewhere.parent.mkdir()
    shutil.copy(path, elsewhere)
    with pytest.raises(ConfigError, match="On a Space, noise_dir is in the folder of this file"):
        augmentation_of(TrainingConfig(augment_config_path=str(elsewhere)))
    assert hum == tmp_path / "noise" / "hum.wav"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "它不是由含 type、params 和 prob 的对象组成的列表"),
        ("[1]", "它不是由含 type、params 和 prob 的对象组成的列表"),
        ('[{"type": "reverse"}]', "没有 'reverse' 这种类型"),
        ("", "没有这个文件。它必须是"),
        ("nonsense", "它无法作为 JSON 读取。它必须是"),
        ("[" * 40_000, "它无法作为 JSON 读取。"),
        ('[{"type": "speed", "params": {"x": 1}}]', "speed 没有 'x' 这个参数"),
        ('[{"type": "speed", "params": {"num_rates": 1e9}}]', "num_rates 为 0 到"),
        ('[{"type": "speed", "prob": 2}]', "收到的是 2。它必须是"),
        ('[{"type": "speed", "prob": "often"}]', "：{'type': 'speed', 'prob': 'often'} 里有类型不对的值。"),
        ('[{"type": "resample", "params": {"new_sample_rates": 8000}}]', "里有类型不对的值。"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_a_sentence(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "augmentation.json"
    if text:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"augment_config_path .* cannot be used: .*\.") as refused:
        augmentation_of(TrainingConfig(augment_config_path=str(path)))
    assert reason in said(refused.value, "zh-CN")


def test_a_folder_without_noise_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no sound file"):
        augmentation_of(TrainingConfig(noise_dir=str(tmp_path)))


def test_noises_that_cannot_be_read_are_left_out_and_told(tmp_path: Path) -> None:
    for name in ("a.wav", "b.wav", "._hum.wav"):
        (tmp_path / name).write_bytes(b"RIFF no sound")
    told: list[str] = []
    folder = augmentation_of(TrainingConfig(noise_dir=str(tmp_path)))
    with pytest.raises(ConfigError, match="has no sound file that can be read"):
        folder.with_readable_noises(lambda message: told.append(str(message)))
    soundfile.write(tmp_path / "hum.wav", TONE, 16_000)
    folder = augmentation_of(TrainingConfig(noise_dir=str(tmp_path)))
    heard = folder.with_readable_noises(lambda message: told.append(str(message)))
    assert [path.name for path in heard.noises] == ["hum.wav"]
    (said,) = told
    assert said.startswith("2 files of noise_dir are left out: ") and str(tmp_path / "a.wav") in said


def test_a_resumed_run_with_augmentation_equals_an_unbroken_one_whoever_reads_its_clips(runs: Runs) -> None:
    whole = runs.finished("whole", **ALL)
    for workers in (0, 1):
        broken = runs.new(f"broken-{workers}", **ALL, dataloader_num_workers=workers)
        assert runs.carry_out(broken, stop_at=5).state == "stopped"
        assert runs.carry_out(broken).state == "finished"
        assert losses(whole) == losses(broken), workers
        assert_same_weights(whole.checkpoints / "checkpoint-8", broken.checkpoints / "checkpoint-8")


def test_augmentation_changes_what_is_learned(runs: Runs) -> None:
    runs.finished("plain", run_name="plain")
    runs.finished("noisy", run_name="noisy", noise_prob=1.0)
    with pytest.raises(AssertionError):
        assert_same_weights(runs.settings.models / "plain", runs.settings.models / "noisy")
