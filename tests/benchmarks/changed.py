"""Does `tests/run.py --changed` find what is broken? Small faults are put in one by one.

`python -m tests.benchmarks.changed [--whole] [NAME …]` writes `reports/changed.json` and `.md`. Each fault is
put into a clone of the last commit; the tests chosen for it run up to the first that fails, quick ones first.
Style and types are left out: they are not to find it. `--whole` has the whole suite run, too, to its end, and
tells which tests fail there: half an hour a fault.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.run import side_by_side
from tests.stories import ALWAYS
from tests.studio_process import ROOT

REPORTS = ROOT / "tests" / "benchmarks" / "reports"


@dataclass(frozen=True)
class Fault:
    """A line of a file, and what a slip makes of it."""

    file: str
    is_there: str
    instead: str
    what: str


FAULTS = {
    "dataset": Fault(
        "studio/dataset/columns.py",
        "abs(len(near[0]) - len(name.strip())) <= 1",
        "abs(len(near[0]) - len(name.strip())) < 1",
        "a wrong comparison: a column that lacks a letter is no slip of the pen any more",
    ),
    "registry": Fault(
        "studio/registry/listing.py",
        "key=lambda spec: spec.created, reverse=True",
        "key=lambda spec: spec.created",
        "the wrong order: the oldest model first",
    ),
    "whisper": Fault(
        "studio/whisper/audio_context.py",
        "positions_for(round(100 * seconds))",
        "positions_for(round(50 * seconds))",
        "a wrong unit: positions for frames",
    ),
    "memory": Fault(
        "studio/memory/sharding.py",
        'part if plan.sharding == "zero2" else 1.0, part, exchange, exchange',
        'part, part if plan.sharding == "zero2" else 1.0, exchange, exchange',
        "swapped arguments: ZeRO-1 shares gradients instead of optimizer states",
    ),
    "transcription": Fault(
        "studio/transcription/transcription_jobs.py",
        "len(group) >= size or not is_short",
        "len(group) > size or not is_short",
        "off by one: a recording too many in a batch",
    ),
    "captions": Fault(
        "studio/transcription/captions.py",
        'html.escape("\\n".join(cue.lines), quote=False)',
        '"\\n".join(cue.lines)',
        "a missing escape: WebVTT with the text's own angle brackets",
    ),
    "evaluation": Fault(
        "studio/evaluation/metrics.py",
        "len(given) for given, _ in pairs",
        "len(heard) for _, heard in pairs",
        "a wrong name: a reference is as long as the hypothesis",
    ),
    "doctor": Fault(
        "studio/doctor/examine.py",
        'stuck_at = str(row.pop("trying", stuck_at))',
        'stuck_at = str(row.pop("trying", TORCH))',
        "a wrong default: it is always torch that hangs",
    ),
    "training": Fault(
        "studio/training/schedule.py",
        "if step >= self.max_steps:",
        "if step > self.max_steps:",
        "off by one: no evaluation after the last step",
    ),
    "jobs": Fault(
        "studio/runs/starter.py",
        "for _, name in sorted(places)]",
        "for _, name in sorted(places, reverse=True)]",
        "the wrong order: last come, first served",
    ),
    "ui": Fault(
        "studio/serving/waiting.py",
        "self._places.index(place) + 1 - self._at_once",
        "self._places.index(place) - self._at_once",
        "off by one: two visitors are served where one may be",
    ),
    "cli": Fault(
        "studio/cli/parsing.py",
        'return "--" + name.replace("-", "_") + equals + value',
        'return "--" + (name + equals + value).replace("-", "_")',
        "a bracket too far: hyphens of a value become underscores",
    ),
    "actions": Fault(
        "studio/actions/fit.py",
        "if hours <= MANY_HOURS:",
        "if hours >= MANY_HOURS:",
        "a wrong comparison: the method for few hours and for many is the other one's",
    ),
    "methods": Fault(
        "studio/methods/adalora.py",
        'if "ranknum" in name:',
        'if "ranknum" not in name:',
        "a wrong condition: AdaLoRA learns what is to be kept, and nothing else",
    ),
    "options": Fault(
        "studio/options/schedulers.py",
        "min(1e-7, learning_rate / 100)",
        "min(1e-7, learning_rate * 100)",
        "a wrong sign: a small rate ends above its beginning",
    ),
    "publishing": Fault(
        "studio/publishing/findings.py",
        "isinstance(names, list) and check in names",
        "isinstance(names, list) and check not in names",
        "a wrong condition: the card names what was kept as lost",
    ),
    "reports": Fault(
        "studio/reports/evaluation_views.py",
        'tag("b" if row[counted] == best else "span"',
        'tag("b" if row[counted] != best else "span"',
        "a wrong comparison: all rates but the best stand in bold",
    ),
    "page": Fault(
        "studio/ui/come_back.py",
        "if before is not own:",
        "if before is own:",
        "a wrong condition, seen by a browser alone: a page that is loaded again has lost its transcript",
    ),
    "signal": Fault(
        "studio/training/stop.py",
        "for number in (signal.SIGTERM, signal.SIGINT):",
        "for number in (signal.SIGINT,):",
        "a signal forgotten, seen by processes alone: a terminated worker saves nothing",
    ),
    "script": Fault(
        "assets/transcript.js",
        "sound.currentTime < +button.dataset.until",
        "sound.currentTime > +button.dataset.until",
        "a wrong comparison, seen by a browser alone: the word that is heard is not marked",
    ),
}


def found_by(fault: Fault, *, whole: bool) -> dict[str, Any]:
    """What the tests say of a clone with the fault."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # tests that are another user read it
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        text = (clone / fault.file).read_text(encoding="utf-8")
        assert text.count(fault.is_there) == 1, f"{fault.file} no longer has {fault.is_there}"
        (clone / fault.file).write_text(text.replace(fault.is_there, fault.instead), encoding="utf-8")
        asked = subprocess.run(
            [sys.executable, "-m", "tests.changed"],
            cwd=clone,
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        told = re.findall(r"^  (\S+) \((\d+)\): (.*)", asked.stderr, flags=re.MULTILINE)
        reasons = {path: why for path, _, why in told if path not in ALWAYS}
        counts = [int(count) for path, count, _ in told if path not in ALWAYS]
        chosen = [path for path in asked.stdout.split() if path not in ALWAYS]
        failed, seconds, last = run(["-x", *chosen], clone)
        found = {
            "files": len(chosen),
            "tests": sum(counts),
            "first": failed[0] if failed else "",
            "why": reasons[failed[0].split("::")[0]] if failed else "",
            "seconds": seconds,
            "last_line": last,
        }
        if whole:
            failing, found["whole_seconds"], _ = run(
                [*side_by_side(), *(f"--ignore={path}" for path in ALWAYS)], clone
            )
            found["whole"] = failing
            found["whole_outside"] = [name for name in failing if name.split("::")[0] not in chosen]
        return found


def run(arguments: list[str], clone: Path) -> tuple[list[str], float, str]:
    """The tests that fail, how long it took, and the last line."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments],
        cwd=clone,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    assert done.returncode in (0, 1), done.stdout[-3000:]
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, flags=re.MULTILINE)
    return failed, time.monotonic() - began, done.stdout.strip().splitlines()[-1]


def report(found: dict[str, dict[str, Any]]) -> str:
    """The results in Markdown."""
    lines = [
        "# What `--changed` finds\n",
        "`python -m tests.benchmarks.changed`: each fault alone in a clone, and the tests chosen for it,",
        f"up to the first that fails. {platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}; other work on the machine included.\n",
        "| fault | where | chosen | what finds it first | why that was chosen | after |",
        "|---|---|---|---|---|---|",
    ]
    for row in found.values():
        fault, result = row["fault"], row["found"]
        chosen = f"{result['tests']} in {result['files']} files"
        first = f"`{result['first'].removeprefix('tests/')}`" if result["first"] else "**nothing**"
        lines.append(
            f"| {fault['what']} | `{fault['file']}` | {chosen} | {first} | {result['why']} | "
            f"{result['seconds']:.0f} s |"
        )
    whole = {name: row["found"] for name, row in found.items() if "whole" in row["found"]}
    if whole:
        lines += [
            "\n| fault | fail in the whole suite | of them not chosen | whole suite |",
            "|---|---|---|---|",
        ]
        for name, result in whole.items():
            outside = (
                ", ".join(f"`{test.removeprefix('tests/')}`" for test in result["whole_outside"]) or "none"
            )
            minutes = result["whole_seconds"] / 60
            lines.append(f"| {name} | {len(result['whole'])} | {outside} | {minutes:.0f} minutes |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Tries the faults that are named, or all; the exit code is 1 if one of them is not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whole", action="store_true", help="let the whole suite look for them, too")
    parser.add_argument("names", nargs="*", choices=[[], *FAULTS], help="of faults")
    given = parser.parse_args()
    kept = REPORTS / "changed.json"
    before = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
    for name in given.names or FAULTS:
        result = found_by(FAULTS[name], whole=given.whole)
        before[name] = {"fault": asdict(FAULTS[name]), "found": result}
        print(name, json.dumps(result, indent=1), flush=True)
        rows = {name: before[name] for name in FAULTS if name in before}
        kept.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        (REPORTS / "changed.md").write_text(report(rows), encoding="utf-8")
    return 0 if all(row["found"]["first"] for row in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
