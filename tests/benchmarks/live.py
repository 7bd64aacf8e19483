"""How soon a spoken word stands on the page: a browser whose microphone plays a clip with known word times.

`python -m tests.benchmarks.live` starts the studio, speaks sentences that the demo model knows into the page,
two at a time, watches the page, and writes `reports/live.md`. The end of each word in the sound is taken from
the demo model's own alignment of the whole clip; the clock is the page's, started by the first loud sample
that the page itself hears. A word stands on the page as soon as the text, aligned with what the model hears
in the whole clip, has it.

With `--texts`, the second table is made in its place: recordings of a minute and more, also without a pause,
are spoken into `studio.ui.transcribe.live_sessions` some seconds at a time, with the page's options, and what
stands there after Stop, and before, is laid beside what the same model (`STUDIO_TEST_MODEL`) writes of the
whole recording as a file.
Each table is kept when the other is made anew.
"""

import base64
import itertools
import math
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
import wave
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Browser, Page, expect, sync_playwright

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.options.choices import ENGINES
from studio.publishing.export import Exporter
from studio.registry.store import ModelRegistry
from studio.settings import DEMO_MODEL, Settings
from studio.transcription.engine import EngineChoice, TranscribeOptions, Word
from studio.transcription.live import LiveText
from studio.transcription.loaded_base import load_base
from studio.transcription.model_cache import ModelCache
from studio.transcription.transcriber import Transcriber
from studio.ui.transcribe.live_sessions import LiveSessions
from tests.benchmarks import recordings
from tests.benchmarks.hearing_report import errors_of_utterances, interval
from tests.benchmarks.recordings import Recording
from tests.benchmarks.transcription import known_sentences
from tests.studio_process import ROOT, StudioProcess

REPORT = ROOT / "tests" / "benchmarks" / "reports" / "live.md"
MICROPHONE_RATE = 48_000
BEFORE_SECONDS, AFTER_SECONDS = 2.0, 3.0
HIGHEST_MEDIAN_SECONDS = 1.5

# Notes when the first loud sample reaches the page, and each change of the text, on one clock.
_WATCH = """
window.live = {began: 0, changes: []};
const Node = window.AudioWorkletNode;
window.AudioWorkletNode = class extends Node {
  constructor(...given) {
    super(...given);
    this.port.addEventListener('message', (event) => {
      const at = event.data.findIndex((value) => Math.abs(value) > LOUD);
      const early = (event.data.length - Math.max(at, 0)) / given[0].sampleRate * 1000;
      if (!window.live.began && at >= 0) window.live.began = performance.now() - early;
    });
  }
};
new MutationObserver(() => {
  const part = (name) => document.querySelector(`#live [data-live=${name}]`)?.textContent ?? '';
  const [settled, tentative] = [part('settled').trim(), part('tentative').trim()];
  const last = window.live.changes.at(-1);
  if (last?.settled === settled && last?.tentative === tentative) return;
  window.live.changes.push({at: performance.now(), settled, tentative});
}).observe(document, {subtree: true, childList: true, characterData: true});
"""
QUIET = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--no-first-run",
    "--autoplay-policy=no-user-gesture-required",
    # The address bar: two more pages in each window, which take a tenth of the time that ours takes.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup",
)
"""Options of Chromium that keep it at what it is asked for."""
LOUD = 0.02
LONGEST_WORD_MS = 800.0
SPOKEN = {"without pauses": ((0.0, 0.0), 100.0, 3), "with pauses": (recordings.PAUSE_SECONDS, 60.0, 6)}
"""Pauses between clips, length, and how many recordings."""
LEAST_SECONDS = 4.0
"""Twenty times what the page sends at least: with that, hearing takes as long as the recording."""
MOST_SECONDS = 20.0
"""What the page sends at most."""
Sound = NDArray[np.float32]


def word_times(samples: Sound, engine: Transcriber) -> list[Word]:
    """When each word of a clip was said, by the model that hears the whole clip at once."""
    options = TranscribeOptions(language="en", timestamps="word")
    heard = engine.transcribe_samples([samples], len(samples) / SAMPLING_RATE, options)
    return [word for segment in heard.segments for word in segment.words]


def microphone_file(clip: Path, folder: Path) -> Path:
    """The clip as a microphone's file, with silence around it."""
    return microphone_sound(read_audio(clip), folder / f"{clip.stem}.wav")


def microphone_sound(sound: Sound, path: Path) -> Path:
    """Samples at 16 kHz as a microphone's file, with silence around them."""
    samples = np.repeat(sound, MICROPHONE_RATE // SAMPLING_RATE)
    silence = [np.zeros(int(seconds * MICROPHONE_RATE)) for seconds in (BEFORE_SECONDS, AFTER_SECONDS)]
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(MICROPHONE_RATE)
        file.writeframes((np.concatenate([silence[0], samples, silence[1]]) * 32767).astype("<i2").tobytes())
    return path


def speak(page: Page, url: str, seconds: float) -> dict[str, Any]:
    """Speaks the clip into the page; gives when the sound began and each change of the text, in ms."""
    page.add_init_script(_WATCH.replace("LOUD", str(LOUD)))
    page.goto(url)
    expect(page.locator("#memory-parts table")).to_be_visible(timeout=90_000)
    page.locator("#studio-tabs > .tab-wrapper [role=tab]").nth(2).click()
    page.get_by_role("tab", name="Live", exact=True).click()
    page.locator("[data-live=toggle]").click()
    expect(page.locator("[data-live=status]")).to_contain_text("Listening", timeout=90_000)
    page.wait_for_timeout(1000 * (BEFORE_SECONDS + seconds + AFTER_SECONDS))
    page.locator("[data-live=toggle]").click()
    expect(page.locator("[data-live=toggle]")).to_have_text("Start listening")
    seen: dict[str, Any] = page.evaluate("window.live")
    return seen


def delays(seen: dict[str, Any], words: list[Word], loud_seconds: float) -> tuple[list[float], list[float]]:
    """Seconds from the end of each word to its text on the page: at all, and settled.

    A word that never stood there is left out; `loud_seconds` is where the clip first is that loud.
    """
    ends = [seen["began"] + 1000 * (word.end_seconds - loud_seconds) for word in words]
    spoken = [word.text.strip().lower() for word in words]
    found: tuple[list[float], list[float]] = ([], [])
    for delays_, text_of in zip(found, (_all_text, _settled_text), strict=True):
        waiting = set(range(len(words)))
        for change in seen["changes"]:
            matching = SequenceMatcher(None, spoken, text_of(change), autojunk=False).get_matching_blocks()
            stand = {place for block in matching for place in range(block.a, block.a + block.size)}
            # A word cannot stand there before it began: that is an earlier one of the same sound.
            now = {place for place in stand & waiting if change["at"] > ends[place] - LONGEST_WORD_MS}
            delays_ += [(change["at"] - ends[place]) / 1000 for place in sorted(now)]
            waiting -= now
    return found


def _all_text(change: dict[str, Any]) -> list[str]:
    return f"{change['settled']} {change['tentative']}".lower().split()


def _settled_text(change: dict[str, Any]) -> list[str]:
    return str(change["settled"]).lower().split()


def measure(clips: list[Sound], folder: Path) -> tuple[list[float], list[float], int]:
    """Delays over all clips, shown and settled, and how many words they hold."""
    engine = Transcriber(load_base(DEMO_MODEL, device="cpu", threads=1), "demo")
    times = [word_times(clip, engine) for clip in clips]
    del engine
    shown: list[float] = []
    settled: list[float] = []
    with (
        StudioProcess(folder / "home", {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9"}) as studio,
        sync_playwright() as playwright,
    ):
        for number, (samples, words) in enumerate(zip(clips, times, strict=True)):
            microphone = microphone_sound(samples, folder / f"{number}.wav")
            browser = browser_that_hears(playwright, microphone)
            page = browser.new_context(locale="en-US", permissions=["microphone"]).new_page()
            seen = speak(page, studio.url, len(samples) / SAMPLING_RATE)
            browser.close()
            loud = float(np.argmax(np.abs(samples) > LOUD)) / SAMPLING_RATE
            first, sure = delays(seen, words, loud)
            print(number, f"{len(first)} of {len(words)} words", [round(d, 2) for d in first])
            if len(first) < len(words):
                print("  spoken:", *(word.text for word in words))
                print("  at the end:", seen["changes"][-1:])
            shown += first
            settled += sure
    return shown, settled, sum(map(len, times))


def shell_of(chromium: str | None) -> str | None:
    """Its shell beside it, if there is one, as Playwright's own has: the engine without the browser around a
    page, which takes a twentieth of the work. It never notifies anybody."""
    return chromium and (shutil.which(f"{chromium}-headless-shell") or chromium)


def browser_that_hears(playwright: Any, microphone: Path, *, again_and_again: bool = False) -> Browser:
    """Chromium whose microphone plays one file once, or again and again."""
    ending = "" if again_and_again else "%noloop"
    browser: Browser = playwright.chromium.launch(
        executable_path=shell_of(os.environ.get("STUDIO_TEST_CHROMIUM")),
        args=[
            *QUIET,
            "--use-fake-ui-for-media-stream",
            "--use-fake-device-for-media-stream",
            f"--use-file-for-fake-audio-capture={microphone}{ending}",
        ],
    )
    return browser


def texts_after_stop(folder: Path) -> str:
    """The second table: errors of what stands there after Stop, of the file's transcript, and before Stop."""
    settings = Settings.from_env({"STUDIO_HOME": str(folder), "STUDIO_THREADS": "1"})
    registry = ModelRegistry(settings.models, demo=DEMO_MODEL, hf_cache=None)
    engines = ModelCache(registry, idle_seconds=3600, threads=1, exports=Exporter(registry))
    rows = ""
    for kind, engine, language in itertools.product(SPOKEN, reversed(ENGINES), recordings.FOLDERS):
        pauses, seconds, count = SPOKEN[kind]
        spoken = recordings.joined("", language, recordings.clips(language), pauses, seconds)
        told = f"{language}, {kind} | {engine}"
        rows += _row_of_texts(told, list(itertools.islice(spoken, count)), engines, EngineChoice(engine))
        print(rows, flush=True)
    engines.close()
    return (
        "# After Stop, beside the file\n\n"
        "`python -m tests.benchmarks.live --texts`: whisper-tiny, recordings of a minute with pauses of 0.1 "
        "to 1 s, and of 100 s without any. As on the page, what is said while one answer is waited for is "
        f"heard next, {LEAST_SECONDS:.0f} s at least. Errors of words (of characters in Mandarin, "
        "simplified), with the 95 % interval of the difference; how many words are lost in a row; waits in "
        "seconds of the processor.\n\n"
        "| | engine | words | after Stop | as a file | difference | before Stop | lost: after, file, before "
        "| waits: median, longest | after Stop |\n|---|---|---|---|---|---|---|---|---|---|\n" + rows
    )


def _row_of_texts(told: str, spoken: list[Recording], engines: ModelCache, choice: EngineChoice) -> str:
    found: tuple[list[Any], ...] = ([], [], [])
    model, waits, ends = os.environ["STUDIO_TEST_MODEL"], [], []
    for one in spoken:
        options = TranscribeOptions(language=one.language)
        with tempfile.TemporaryDirectory() as folder:
            sessions = LiveSessions(engines, lambda: Path(folder), math.inf)
            sessions.begin(one.name, model, options, choice)
            # As the page sends it, and as it is kept.
            sound = (one.samples * 32767).round().astype("<i2")
            at, took, shown = 0, [0.0], ""
            while at < len(sound):
                size = int(min(max(LEAST_SECONDS, took[-1]), MOST_SECONDS) * SAMPLING_RATE)
                text, cpu = _fed(sessions, one.name, sound[at : at + size])
                shown, at = f"{text.settled} {text.tentative}", at + size
                took.append(cpu)
            after, cpu = _fed(sessions, one.name, sound[:0], is_last=True)
        waits += took[1:]
        ends.append(cpu)
        with engines.lease(model, choice) as engine:
            kept = sound.astype(np.float32) / 32768
            whole = engine.transcribe_samples([kept], one.seconds, options)
        for texts, text in zip(found, (after.settled, whole.text, shown), strict=True):
            texts.append(errors_of_utterances(one, text))
        print(told, *(texts[-1][0].sum() for texts in found), flush=True)
    sizes = np.concatenate([size for _, size, _ in found[0]])
    live, file, before = (np.concatenate([count for count, _, _ in texts]) for texts in found)
    low, high = (100 * edge for edge in interval(live - file, sizes))
    shares = [100 * count.sum() / sizes.sum() for count in (live, file, before)]
    lost = ", ".join(str(sum(lost for *_, lost in texts)) for texts in found)
    return (
        f"| {told} | {sizes.sum()} | {shares[0]:.1f} % | {shares[1]:.1f} % "
        f"| {shares[0] - shares[1]:+.1f} ({low:+.1f} to {high:+.1f}) | {shares[2]:.1f} % | {lost} "
        f"| {statistics.median(waits):.1f}, {max(waits):.1f} | {max(ends):.1f} |\n"
    )


def _fed(
    sessions: LiveSessions, name: str, sound: NDArray[np.int16], *, is_last: bool = False
) -> tuple[LiveText, float]:
    """What the page is answered, and after how many seconds of the processor."""
    sent = base64.b64encode(sound.tobytes()).decode()
    began = time.process_time()
    return sessions.feed(name, SAMPLING_RATE, sent, is_last=is_last), time.process_time() - began


def written(table: str) -> str:
    """Puts a table into the report, in place of an earlier one of the same title."""
    there = REPORT.read_text(encoding="utf-8") if REPORT.exists() else ""
    parts = [part for part in re.split("(?m)^(?=# )", there) if part.strip()]
    title = table.partition("\n")[0]
    parts = [part for part in parts if part.partition("\n")[0] != title] + [table]
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text("\n".join(sorted(f"{part.strip()}\n" for part in parts)), encoding="utf-8")
    return table


def report(shown: list[float], settled: list[float], words: int, clips: int) -> str:
    """The table of the report."""
    rows = "".join(
        f"| {name} | {len(values)} of {words} | {statistics.median(values):.2f} s "
        f"| {np.quantile(values, 0.95):.2f} s |\n"
        for name, values in (("on the page", shown), ("settled", settled))
    )
    return (
        "# From a word's end to its text on the page\n\n"
        f"`python -m tests.benchmarks.live`: {clips} pairs of sentences spoken into Chromium's "
        f"microphone, the demo model, {os.cpu_count()} CPU cores, "
        f"load of {os.getloadavg()[0]:.1f} at the end (other work included).\n\n"
        "| the word stands | words | median | 95th percentile |\n|---|---|---|---|\n" + rows
    )


def main() -> int:
    """Measures, writes the report, and fails if the median is too long."""
    with tempfile.TemporaryDirectory() as folder:
        if "--texts" in sys.argv:
            print(written(texts_after_stop(Path(folder))))
            return 0
        count = int(sys.argv[1]) if len(sys.argv) > 1 else 8
        clips = [samples for samples, _text in known_sentences()[:count]]
        shown, settled, words = measure(clips, Path(folder))
    print(written(report(shown, settled, words, len(clips))))
    return 0 if statistics.median(shown) <= HIGHEST_MEDIAN_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
