"""Short windows in transcription: as the model's card says, or as the visitor asks."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from studio.dataset.audio import read_audio
from studio.registry.spec import ModelKind, ModelSource, ModelSpec
from studio.registry.store import ModelRegistry
from studio.transcription.engine import TranscribeOptions
from studio.transcription.model_cache import ModelCache
from studio.transcription.windows import WindowLengths
from studio.whisper.audio_context import positions_of
from tests.unit.transcription.small_models import ONE_WINDOW_AFTER_ANOTHER, Sample


class Lengths:
    """Positions that an encoder gave out, in their order."""

    def __init__(self, decoder: Any) -> None:
        self.seen: list[int] = []
        decoder.model.get_encoder().register_forward_hook(self._note)

    def _note(self, _module: Any, _inputs: Any, output: Any) -> None:
        self.seen.append(output.last_hidden_state.shape[1])


@pytest.fixture(scope="module")
def short_cache(
    models_folder: Path, demo_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ModelCache]:
    """The adapter `faint` with a card that says it was trained on short windows, and `today` with one that
    says that it reads longer recordings in whole ones."""
    models = tmp_path_factory.mktemp("short") / "models"
    shutil.copytree(models_folder, models)
    shutil.copytree(models / "faint", models / "today")
    told: dict[str, Any] = {"audio_context": "short", "clip_seconds": {"mean": 2.0, "longest": 6.0}}
    for model, more in (("faint", {}), ("today", {"long_recordings": "full"})):
        card_path = models / model / "model.json"
        card = json.loads(card_path.read_text(encoding="utf-8"))
        card_path.write_text(json.dumps({**card, **told, **more}), encoding="utf-8")
    registry = ModelRegistry(models, demo=demo_model, hf_cache=None)
    made = ModelCache(registry, idle_seconds=300, device="cpu")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("model", "asked", "is_short"),
    [
        ("demo", "auto", False),
        ("demo", "short", True),
        ("faint", "auto", True),
        ("faint", "full", False),
        ("garbling", "auto", False),
    ],
)
def test_the_card_decides_unless_the_visitor_does(
    model: str, asked: Any, is_short: bool, short_cache: ModelCache, command: Sample
) -> None:
    options = TranscribeOptions(language="en", audio_context=asked, temperature=(0.0,))
    with short_cache.lease(model) as engine:
        with engine._loaded.using(None) as decoder:
            lengths = Lengths(decoder)
        transcript = engine.transcribe(command.path, options)
        engine.transcribe_batch([command.sound], options, ["en"])
    wanted = [length < 500 for length in lengths.seen]
    assert wanted and all(short is is_short for short in wanted)
    assert transcript.duration_seconds > 0


def test_a_long_recording_is_cut_into_windows_like_the_clips_of_the_training(
    short_cache: ModelCache, samples: dict[str, Sample]
) -> None:
    sample = samples["long"]
    clip, long = sample.sound[:320_000], sample.sound[:640_000]  # 20 s and 40 s
    with short_cache.lease("faint") as engine:
        with engine._loaded.using(None) as decoder:
            lengths = Lengths(decoder)
        found = engine.transcribe_samples([long], 40.0, TranscribeOptions(language="en", timestamps="none"))
        assert next(engine.transcribe_clips([clip], TranscribeOptions(language="en"))).text
        short = list(lengths.seen)
        engine.transcribe_samples([long], 40.0, TranscribeOptions(language="en", audio_context="full"))
        whole = lengths.seen[len(short) :]
    assert max(short) <= positions_of(6.0) and set(whole) == {1500}
    assert sum(word in sample.text.split() for word in found.text.split()) > 50


@pytest.mark.parametrize("is_new", [False, True])
def test_a_model_of_today_reads_what_is_longer_than_its_clips_in_whole_windows(
    short_cache: ModelCache, samples: dict[str, Sample], is_new: bool
) -> None:
    whole = read_audio(samples["long"].path)
    short, longer = whole[:80_000], whole[:160_000]  # 5 s, as the clips of the training, and 10 s
    options = TranscribeOptions(language="en", timestamps="none")
    with short_cache.lease("today" if is_new else "faint") as engine:
        with engine._loaded.using(None) as decoder:
            lengths = Lengths(decoder)
        alone = [engine.transcribe_batch([sound], options, ["en"])[0] for sound in (longer, short)]
        read = list(lengths.seen)
        if is_new:  # others are read together, as long as the longest
            assert engine.transcribe_batch([longer, short, longer], options, ["en"] * 3) == [*alone, alone[0]]
        lengths.seen.clear()
        engine.transcribe_samples([longer], 10.0, options)
        recording = set(lengths.seen)
    assert (read[0] == 1500) is is_new and read[1] < 500
    assert (recording == {1500}) is is_new


def test_a_clip_in_a_long_silence_is_read_as_a_clip(
    short_cache: ModelCache, samples: dict[str, Sample], command: Sample
) -> None:
    """Somebody pressed the button, and spoke when they were ready."""
    later = np.pad(command.sound, (9 * 16_000, 5 * 16_000))
    several = np.concatenate([later, samples["long"].sound[: 8 * 16_000]])
    options = TranscribeOptions(language="en")
    with short_cache.lease("today") as engine:
        with engine._loaded.using(None) as decoder:
            lengths = Lengths(decoder)
        at_once = engine.transcribe_samples([command.sound], len(command.sound) / 16_000, options)
        lengths.seen.clear()
        found = engine.transcribe_samples([later], len(later) / 16_000, options)
        assert max(lengths.seen) <= positions_of(6.0)
        engine.transcribe_samples([several], len(several) / 16_000, options)
    assert max(lengths.seen) == 1500
    assert found.text == at_once.text
    assert found.segments[0].start_seconds >= 8.5


@pytest.mark.parametrize("given", ONE_WINDOW_AFTER_ANOTHER, ids=lambda given: next(iter(given)))
def test_whatever_is_asked_of_a_model_of_short_clips_its_windows_are_short(
    short_cache: ModelCache,
    samples: dict[str, Sample],
    given: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clip = read_audio(samples["long"].path)[:320_000]
    prompts: list[list[int]] = []
    with short_cache.lease("faint") as engine:
        with engine._loaded.using(None) as decoder:
            lengths = Lengths(decoder)
            write, previous = decoder.generate, decoder.tokens.previous
            heard = lambda *asked: prompts.extend(asked[1]) or write(*asked)  # noqa: E731
            monkeypatch.setattr(decoder, "generate", heard)
        found = engine.transcribe_samples([clip], 20.0, TranscribeOptions(language="en", **given))
    assert max(lengths.seen) <= positions_of(6.0)
    assert len(found.segments) > 3 and found.segments[-1].end_seconds > 15
    told = [previous in prompt for prompt in prompts]
    assert told[0] is ("initial_prompt" in given) and not any(told[1:]), (
        "it has never read text before a clip"
    )


@pytest.mark.parametrize(
    ("card", "wanted"),
    [
        ({"audio_context": "short", "clip_seconds": {"mean": 2, "longest": 6.5}}, (2.0, 6.5)),
        ({"audio_context": "full", "clip_seconds": {"mean": 2, "longest": 6.5}}, None),
        ({"audio_context": "short"}, None),
        ({"audio_context": "short", "clip_seconds": {"mean": "2", "longest": -1}}, None),
        ({"audio_context": "short", "clip_seconds": 4}, None),
    ],
)
def test_how_long_clips_were_is_read_from_the_card_of_a_short_audio_model_only(
    card: dict[str, Any], wanted: tuple[float, float] | None
) -> None:
    spec = ModelSpec("tuned", ModelKind.ADAPTER, ModelSource.TRAINED, "Tuned", card=card)
    assert spec.clip_seconds == wanted
    assert (WindowLengths.of_clips(wanted) == WindowLengths(30, 30)) is (wanted is None)
