"""Is the check after a run right? Its verdicts, beside what the model really reads.

`python -m tests.benchmarks.check [--runs words_en:default,words_en:before,…] [--folder F]` trains
whisper-tiny by the command line with data and settings of `tests.benchmarks.recipe`, the check on, and with
the other language's training clips as `--other_languages_data`. Beside each verdict stand the errors of the
joined recordings of `tests.benchmarks.recipe`. Rows go to `reports/check.json`, the table to
`reports/check.md`; what is there already is not run again.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from studio.evaluation.capabilities import Capability
from studio.evaluation.metrics import interval_of
from tests.benchmarks import recordings
from tests.benchmarks.recipe import DATA, VARIANTS, errors, heard, lists_of, reported
from tests.benchmarks.training import ROOT

REPORT = Path(__file__).parent / "reports" / "check.json"
RUNS = ",".join(f"{data}:{recipe}" for data in ("words_en", "words_zh") for recipe in ("default", "before"))
RUNS += ",aishell40:default,speechocean40:default"
CHECKED = {"long_form": "its language", "other_languages": "the other language"}
_LEAST_POINTS = 2.0
"""What is lost beyond this, and beyond chance, is a loss: as much as the default may cost."""


def row_of(data: str, variant: str, folder: Path) -> dict[str, Any]:
    """One run by the command line; what its check said, and what joined recordings say."""
    language, length = DATA[data]
    other = next(spoken for spoken in recordings.FOLDERS if spoken != language)
    train, test = lists_of(data, folder)
    elsewhere = Path(os.environ["STUDIO_TEST_SPEECH"]) / recordings.FOLDERS[other] / "train.jsonl"
    with tempfile.TemporaryDirectory() as home:
        given = {
            "base_model": os.environ["STUDIO_TEST_MODEL"],
            "train_data": train,
            "language": language,
            "other_languages_data": elsewhere,
            "run_name": "tuned",
            "save_steps": 0,
            **length,
            **VARIANTS[variant],
        }
        began = time.process_time()
        _studio(home, "train", *(part for name, value in given.items() for part in (f"--{name}", str(value))))
        model = next(path.name for path in (Path(home) / "models").iterdir() if path.name.startswith("tuned"))
        card = json.loads(_studio(home, "models", "show", model, "--json"))["card"]
        row = {"data": data, "variant": variant, "check": card["capabilities"]}
        row["seconds"] = card.get("seconds") or {"all": round(time.process_time() - began)}
        texts = heard(Path(home), model, language, test)
    bases = next(one["texts"] for one in reported() if (one["data"], one["variant"]) == (data, "base"))
    for check, spoken in zip(CHECKED, (language, other), strict=True):
        found, before = errors(texts[spoken], spoken), errors(bases[spoken], spoken)
        row[check] = [100 * value for value in (_rate(before), _rate(found), *interval_of(before, found))]
    return row


def _rate(found: Sequence[tuple[int, int]]) -> float:
    return sum(count for count, _ in found) / sum(length for _, length in found)


def _studio(home: str, *words: str) -> str:
    environ = {**os.environ, "STUDIO_HOME": home, "STUDIO_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "studio", *words]
    done = subprocess.run(
        command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, encoding="utf-8", check=True
    )
    return done.stdout


def report(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table."""
    lines = [
        "# The check after a run, beside the truth",
        "",
        "`python -m tests.benchmarks.check`: whisper-tiny, one thread. What the check says of right words "
        "(characters) in a minute of sound, base and model, with the 95 % interval of the difference in "
        "points and the number of sentences; and the errors in recordings of four minutes: of the language "
        "that was learned those of the test clips, of the other one all 400. Right: a loss of more than "
        f"{_LEAST_POINTS:.0f} points beyond chance is called `worse`, and nothing else is.",
        "",
        "| learned from | recipe | long recordings of | the check | verdict | errors in 4 min | right |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        for check, name in CHECKED.items():
            said = next((one for one in row["check"]["checks"] if one["check"] == check), None)
            before, after, more, low, high = row[check]
            is_lost = low > 0 and more > _LEAST_POINTS
            told = "not made" if said is None else _told(said)
            verdict = _verdict(said) if said else ""
            is_right = "" if said is None else ("yes" if (verdict == "worse") == is_lost else "no")
            lines.append(
                f"| {row['data']} | {row['variant']} | {name} | {told} | {verdict} "
                f"| {before:.1f} → {after:.1f} % ({more:+.1f}: {low:+.1f} to {high:+.1f}) | {is_right} |"
            )
    return "\n".join(lines) + "\n"


def _verdict(said: Mapping[str, Any]) -> str:
    """As it is reached today, whatever was said when the run ended."""
    return Capability(**{field.name: said[field.name] for field in fields(Capability)}).verdict


def _told(said: Mapping[str, Any]) -> str:
    base, tuned, low, high = (100 * said[name] for name in ("base", "tuned", "low", "high"))
    return (
        f"{base:.1f} → {tuned:.1f} % right ({tuned - base:+.1f}: {low:+.1f} to {high:+.1f}, {said['clips']})"
    )


def main() -> None:
    """Runs what is missing, and writes the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", default=RUNS)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "studio-recipe")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = json.loads(REPORT.read_text("utf-8")) if REPORT.exists() else []
    for data, variant in (run.split(":") for run in given.runs.split(",")):
        if not any((row["data"], row["variant"]) == (data, variant) for row in rows):
            rows.append(row_of(data, variant, given.folder))
            lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
            REPORT.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
            REPORT.with_suffix(".md").write_text(report(rows), encoding="utf-8")
    print(report(rows))


if __name__ == "__main__":
    main()
