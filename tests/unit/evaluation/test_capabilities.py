"""What tuning is known to break, measured on real models: the demo model, and one that has lost something."""

import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from studio.dataset.manifest import read_manifest
from studio.evaluation.capabilities import (
    CHECKS,
    Capability,
    CapabilityReport,
    check_capabilities,
    verdict_of,
)
from studio.evaluation.other_languages import clips_in_other_languages
from studio.files import read_json
from studio.transcription.model_cache import ModelCache


def deaf_to_english(model: Path, folder: Path) -> Path:
    """A copy to which English is the least likely of all languages."""
    shutil.copytree(model, folder)
    english = read_json(folder / "generation_config.json")["lang_to_id"]["<|en|>"]
    weights = load_file(folder / "model.safetensors")
    for name, tensor in weights.items():
        if "embed_tokens" in name or "proj_out" in name:
            tensor[english] *= -1
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def test_a_model_that_mishears_the_language_is_found_out_and_its_base_is_not(
    engines: ModelCache, demo_model: Path, demo_speech: Path, tmp_path: Path
) -> None:
    broken = deaf_to_english(demo_model, tmp_path / "broken")
    examples = read_manifest(str(demo_speech / "validation.jsonl")).examples[:2]
    others = clips_in_other_languages("", ("zh",), 2)
    report = check_capabilities(engines, str(broken), "demo", examples, others)
    rows = {row.check: row for row in report.checks}
    assert tuple(rows) == CHECKS
    assert (rows["language"].base, rows["language"].tuned) == (1.0, 0.0)
    assert "language" in report.lost
    assert "other_languages" not in report.lost, "told that it is English, it still hears the words"
    assert rows["silence"].base == 1.0 and rows["timestamps"].base == 1.0
    assert all(0 <= share <= 1 for row in report.checks for share in (row.base, row.tuned))
    assert report.to_json()["lost"] == list(report.lost)


def test_a_language_that_is_lost_is_found_out(engines: ModelCache, micro_model: Path) -> None:
    others = clips_in_other_languages("", ("zh",), 2)
    report = check_capabilities(engines, str(micro_model), "demo", (), others)
    (row,) = (row for row in report.checks if row.check == "other_languages")
    assert row.base > 0.9 and row.tuned < 0.5 and "other_languages" in report.lost


@pytest.mark.parametrize(
    ("base", "tuned", "clips", "verdict"),
    [
        (0.9, 0.8, 0, "kept"),
        (0.9, 0.7, 0, "worse"),
        (0.0, 0.0, 0, "kept"),
        (0.0, 0.269, 0, "better"),
        (0.056, 0.0, 0, "worse"),
        (0.056, 0.05, 0, "kept"),
        (1.0, 0.75, 4, "kept"),
        (1.0, 0.5, 4, "worse"),
        (1.0, 0.875, 8, "kept"),
        (1.0, 0.75, 8, "worse"),
    ],
)
def test_a_small_fall_is_chance_and_the_loss_of_a_little_is_a_loss(
    base: float, tuned: float, clips: int, verdict: str
) -> None:
    found = Capability("language", base, tuned, clips)
    assert (found.verdict, found.is_kept) == (verdict, verdict != "worse")
    assert verdict_of({"is_kept": found.is_kept}) in (verdict, "kept")
    assert verdict_of(CapabilityReport("tuned", "base", (found,)).to_json()["checks"][0]) == verdict
