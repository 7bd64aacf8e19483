"""What happens to speech on its way into a recording, and sounds that are not speech."""

import numpy as np
from scipy import signal

from .voices import SAMPLE_RATE, Samples, as_samples

Generator = np.random.Generator


def reverberate(samples: Samples, rng: Generator) -> Samples:
    """A small room: direct sound and an exponentially decaying noise tail of 50 to 350 ms."""
    decay = rng.uniform(0.05, 0.35)
    count = int(decay * SAMPLE_RATE)
    tail = rng.standard_normal(count) * np.exp(-6.9 * np.arange(count) / count)
    tail *= rng.uniform(0.05, 0.5) / np.sqrt(np.sum(tail**2))
    impulse = np.concatenate(([1.0], tail)).astype(np.float32)
    return as_samples(signal.fftconvolve(samples, impulse)[: len(samples)])


def limit_band(samples: Samples, rng: Generator) -> Samples:
    """A telephone or a small microphone: cut below 60–350 Hz and above 2.8–7.5 kHz."""
    low, high = rng.uniform(60, 350), rng.uniform(2800, 7500)
    sections = signal.butter(rng.integers(1, 4), (low, high), "bandpass", fs=SAMPLE_RATE, output="sos")
    return as_samples(signal.sosfilt(sections, samples))


def coloured_noise(count: int, rng: Generator) -> Samples:
    """White, pink or brown noise of unit power."""
    slope = rng.choice((0.0, 0.5, 1.0))
    spectrum = np.fft.rfft(rng.standard_normal(count).astype(np.float32))
    spectrum *= np.maximum(np.fft.rfftfreq(count, 1 / SAMPLE_RATE), 20.0) ** -slope
    noise = np.fft.irfft(spectrum, count)
    return as_samples(noise / (np.sqrt(np.mean(noise**2)) + 1e-9))


def hum(count: int, rng: Generator) -> Samples:
    """Mains hum with harmonics, unit power."""
    base = rng.choice((50.0, 60.0, 100.0, 120.0)) * rng.uniform(0.98, 1.02)
    times = np.arange(count) / SAMPLE_RATE
    tone = sum(rng.uniform(0, 1) / order * np.sin(2 * np.pi * base * order * times) for order in range(1, 9))
    return as_samples(tone / (np.sqrt(np.mean(np.square(tone))) + 1e-9))


def melody(count: int, rng: Generator) -> Samples:
    """Music-like: chords of decaying harmonic tones, unit power."""
    sound = np.zeros(count, np.float32)
    position, beat = 0, rng.uniform(0.15, 0.6)
    while position < count:
        length = min(count - position, int(beat * rng.choice((1, 1, 2)) * SAMPLE_RATE))
        times = np.arange(length) / SAMPLE_RATE
        for _ in range(rng.integers(1, 4)):
            frequency = 110 * 2 ** (rng.integers(0, 36) / 12)
            note = sum(np.sin(2 * np.pi * frequency * k * times) / k**1.5 for k in range(1, 5))
            sound[position : position + length] += (note * np.exp(-times * rng.uniform(1, 6))).astype(
                np.float32
            )
        position += max(length, 1)
    return as_samples(sound / (np.sqrt(np.mean(sound**2)) + 1e-9))


def clicks(count: int, rng: Generator) -> Samples:
    """Keyboard-like clicks over faint noise, about unit power."""
    sound = 0.02 * rng.standard_normal(count).astype(np.float32)
    for _ in range(rng.integers(1, max(2, count // SAMPLE_RATE * 3))):
        length = int(rng.uniform(0.005, 0.04) * SAMPLE_RATE)
        start = rng.integers(0, max(1, count - length))
        burst = rng.standard_normal(length) * np.exp(-5 * np.arange(length) / length)
        sound[start : start + length] += burst[: count - start].astype(np.float32) * rng.uniform(0.2, 2)
    return sound


def no_speech(count: int, rng: Generator) -> Samples:
    """A clip without speech: silence, noise, hum, music-like tones, clicks, or a mixture; any level."""
    roll = rng.random()
    if roll < 0.12:
        return np.zeros(count, np.float32)
    makers = [(coloured_noise, hum, melody, clicks)[rng.choice(4, p=(0.45, 0.2, 0.2, 0.15))]]
    if rng.random() < 0.4:
        makers.append(coloured_noise)
    sound = sum(maker(count, rng) * rng.uniform(0.1, 1) for maker in makers)
    peak = 10 ** rng.uniform(-4, -0.1)
    return as_samples(sound * (peak / (np.abs(sound).max() + 1e-9)))


def record(samples: Samples, rng: Generator) -> Samples:
    """A recording of clean speech: room, band, noise and gain, each only sometimes."""
    if rng.random() < 0.15:
        samples = reverberate(samples, rng)
    if rng.random() < 0.1:
        samples = limit_band(samples, rng)
    power = (
        float(np.sqrt(np.mean(samples[np.abs(samples) > 0.01] ** 2)))
        if np.any(np.abs(samples) > 0.01)
        else 0.1
    )
    if rng.random() < 0.4:
        noise = hum(len(samples), rng) if rng.random() < 0.12 else coloured_noise(len(samples), rng)
        samples = samples + noise * (power * 10 ** (-rng.uniform(18, 45) / 20))
    elif rng.random() < 0.5:
        samples = samples + 1e-4 * rng.standard_normal(len(samples)).astype(np.float32)
    samples = samples * 10 ** (rng.uniform(-15, 3) / 20)
    return as_samples(np.clip(samples, -1, 1))
