"""Many visitors, and one who speaks: does each get their own text, in turn and in time, in how much memory?

`python -m tests.benchmarks.visitors [--requests 500] [--visitors 20]` writes
`reports/visitors.json` and `.md`:

- how long it takes to switch from one adapter to another on one copy of the weights;
- how much later than the engine's own time the text of a clip of five seconds stands on the page, counted
  from the click on Stop, with the model warm (Chromium with a microphone that plays a clip), and where that
  time goes: the engine's own time tells how busy the machine was meanwhile;
- visitors that ask at once, again and again: whose text they got, in which order they were served, and the
  memory of the studio's process along the way.
"""

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
from gradio_client import Client, handle_file
from playwright.sync_api import Page, expect, sync_playwright

from studio.dataset.audio import SAMPLING_RATE, save_pcm
from studio.settings import DEMO_MODEL
from studio.ui.build import VISITORS_KEPT
from tests.benchmarks.live import (
    AFTER_SECONDS,
    BEFORE_SECONDS,
    browser_that_hears,
    microphone_sound,
)
from tests.benchmarks.transcription import known_sentences, machine
from tests.studio_process import StudioProcess
from tests.unit.transcription.small_models import save_adapter

REPORTS = Path(__file__).parent / "reports"
SWITCHES = 20
PATIENCE_SECONDS = 300.0
RECORDINGS = 10
EVERY = 25
"""Requests between two looks at the memory."""
STEPS = {
    "encoded": "the browser encodes the recording",
    "uploaded": "the recording goes to the studio",
    "asked": "the page asks for its text",
    "shown": "the text stands there, the engine's own time taken off",
}
"""What is reached, in this order → what was done since the step before."""
_WATCH = """
window.record = {};
const note = (name) => { window.record[name] ??= performance.now(); };
const look = () => {
  if (document.querySelector('#transcript textarea')?.value) note('shown');
  else requestAnimationFrame(look);
};
document.addEventListener('click', (event) => {
  const button = event.target.closest('#transcribe-audio button');
  if (button?.textContent.trim() !== 'Stop') return;
  window.record = {stopped: performance.now()};
  look();
}, true);
const plain = window.fetch;
window.fetch = async (...given) => {
  const address = String(given[0]?.url ?? given[0]);
  const isUpload = /gradio_api\\/upload/.test(address);
  if (isUpload) note('encoded');
  if (/queue\\/join/.test(address)) note('asked');
  const answer = await plain(...given);
  if (isUpload) note('uploaded');
  return answer;
};
"""


def adapter_switching() -> dict[str, float]:
    """Milliseconds to put another adapter into force; both are in memory."""
    from studio.transcription.loaded_base import load_base

    with tempfile.TemporaryDirectory() as folder:
        base = load_base(DEMO_MODEL, device="cpu", threads=1)
        for seed, name in enumerate(("one", "other")):
            base.add_adapter(name, save_adapter(DEMO_MODEL, Path(folder) / name, seed=seed))
        times = []
        for number in range(SWITCHES):
            began = time.perf_counter()
            with base.using(("one", "other")[number % 2]):
                times.append(1000 * (time.perf_counter() - began))
    return {"median_ms": statistics.median(times), "longest_ms": max(times), "switches": SWITCHES}


def after_the_stop(studio: StudioProcess, folder: Path, recordings: int) -> dict[str, Any]:
    """Milliseconds from the click on Stop to the text, beyond the engine's own time, and each step's."""
    sound = known_sentences()[2][0]
    microphone = microphone_sound(sound, folder / "spoken.wav")
    rows = []
    with sync_playwright() as playwright:
        for number in range(recordings + 1):
            browser = browser_that_hears(playwright, microphone)
            page = browser.new_context(locale="en-US", permissions=["microphone"]).new_page()
            page.set_default_timeout(90_000)
            row = _speak(page, studio.url, len(sound) / SAMPLING_RATE)
            browser.close()
            print(row, flush=True)
            if number:  # the first loads the model
                rows.append(row)
    over = [row["page_ms"] - row["engine_ms"] for row in rows]
    steps = {name: statistics.median(row["steps_ms"][name] for row in rows) for name in STEPS}
    engine = statistics.median(row["engine_ms"] for row in rows)
    return {
        "median_ms": statistics.median(over),
        "longest_ms": max(over),
        "engine_median_ms": engine,
        "steps_median_ms": steps,
        "rows": rows,
    }


def _speak(page: Page, url: str, seconds: float) -> dict[str, Any]:
    page.add_init_script(_WATCH)
    page.goto(url)
    expect(page.locator("#memory-parts table")).to_be_visible(timeout=90_000)
    page.locator("#studio-tabs > .tab-wrapper [role=tab]").nth(2).click()
    expect(page.locator("#transcribe-model input")).to_have_value("Demo model", timeout=90_000)
    audio = page.locator("#transcribe-audio")
    audio.get_by_role("button", name="Record audio").click()
    audio.get_by_role("button", name="Record", exact=True).click()
    page.wait_for_timeout(1000 * (BEFORE_SECONDS + seconds + AFTER_SECONDS / 2))
    audio.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator("#transcript-downloads a")).to_have_count(5, timeout=90_000)
    seen = page.evaluate("window.record")
    heard = json.loads(
        page.evaluate("atob(document.querySelector('#transcript-downloads a:last-child').href.split(',')[1])")
    )
    engine = 1000 * heard["real_time_factor"] * heard["duration_seconds"]
    times = [seen["stopped"], *(seen[name] for name in STEPS)]
    steps = {name: after - before for name, before, after in zip(STEPS, times, times[1:], strict=False)}
    return {
        "page_ms": seen["shown"] - seen["stopped"],
        "engine_ms": engine,
        "steps_ms": {**steps, "shown": steps["shown"] - engine},
        "text": heard["text"],
    }


class _Visits:
    """What the visitors got."""

    def __init__(self, studio: StudioProcess, clips: list[Path], texts: list[str]) -> None:
        self._studio, self._clips, self._texts = studio, clips, texts
        self._lock, self._joining = threading.Lock(), threading.Lock()
        self._joined = 0
        self._process = psutil.Process(studio.pid)
        self.wrong: list[dict[str, Any]] = []
        self.served: list[int] = []
        self.ranks: list[int] = []
        self.memory_mib: list[float] = []

    def _numbered(self, client: Client) -> list[int]:
        """The places in line that a client's requests get: those of joining the studio's queue, after the
        upload, one request at a time."""
        plain, mine = client.send_data, []

        def join(*given: Any) -> Any:
            with self._joining:
                found = plain(*given)
                mine.append(self._joined)
                self._joined += 1
            return found

        client.send_data = join
        return mine

    def ask(self, visitor: int, count: int) -> None:
        """One visitor, who asks `count` times for a clip of their own, and comes anew each time."""
        client = Client(self._studio.url, verbose=False, httpx_kwargs={"timeout": PATIENCE_SECONDS})
        place = visitor % len(self._clips)
        mine = self._numbered(client)
        for turn in range(count):
            job = client.submit(audio=handle_file(self._clips[place]), model="demo", api_name="/transcribe")
            job.add_done_callback(lambda _job: self.served.append(mine[-1]))
            while not job.done():
                rank = job.status().rank
                if turn == 0 and rank is not None:
                    self.ranks.append(rank)
                time.sleep(0.05)
            text = job.result()["text"]
            with self._lock:
                if text != self._texts[place]:
                    self.wrong.append({"asked": self._texts[place], "got": text})
                if len(self.served) % EVERY == 0:
                    self.memory_mib.append(self._process.memory_info().rss / 2**20)
                    print(len(self.served), f"{self.memory_mib[-1]:.0f} MiB", flush=True)
            client.reset_session()


def many_at_once(studio: StudioProcess, visitors: int, requests: int, folder: Path) -> dict[str, Any]:
    """All visitors ask at once, each as often as it takes to make `requests` together."""
    clips = []
    for number, (samples, _text) in enumerate(known_sentences()):
        clips.append(folder / f"clip-{number}.wav")
        save_pcm(samples, SAMPLING_RATE, clips[-1])
    client = Client(studio.url, verbose=False)
    texts = [
        client.predict(audio=handle_file(clip), model="demo", api_name="/transcribe")["text"]
        for clip in clips
    ]
    visits = _Visits(studio, clips, texts)
    began = time.perf_counter()
    with ThreadPoolExecutor(visitors) as pool:
        list(pool.map(lambda visitor: visits.ask(visitor, requests // visitors), range(visitors)))
    late = [at - number for at, number in enumerate(visits.served)]
    # Those of the last visitors are kept: until there are so many, memory has to grow.
    settled = visits.memory_mib[VISITORS_KEPT // EVERY :]
    return {
        "visitors": visitors,
        "requests": len(visits.served),
        "seconds": time.perf_counter() - began,
        "wrong_texts": visits.wrong,
        "different_texts": len(set(texts)),
        "largest_rank_seen": max(visits.ranks, default=0),
        "places_out_of_order": max(map(abs, late)),
        "memory_mib": visits.memory_mib,
        "memory_growth_mib": max(settled) - settled[0],
    }


def report(found: dict[str, Any]) -> str:
    """The results in Markdown."""
    switch, stop, many = found["switching"], found["record_stop"], found["visitors"]
    told = ", ".join(f"{name} {value}" for name, value in found["machine"].items())
    memory = many["memory_mib"]
    steps = "".join(
        f"| – {STEPS[name]} | median {ms:.0f} ms |\n" for name, ms in stop["steps_median_ms"].items()
    )
    return (
        "# Visitors\n\n`python -m tests.benchmarks.visitors`: the demo model on this CPU, "
        f"load of {found['load']:.1f} (other work included). {told}.\n\n"
        "| what | measured |\n|---|---|\n"
        f"| another adapter on the same weights | median {switch['median_ms']:.1f} ms, longest "
        f"{switch['longest_ms']:.1f} ms of {switch['switches']} switches |\n"
        "| Record, Stop: text on the page later than the engine's own time | median "
        f"{stop['median_ms']:.0f} ms, longest {stop['longest_ms']:.0f} ms of {len(stop['rows'])} clips |\n"
        f"{steps}| – the engine's own time (not in the above) | median {stop['engine_median_ms']:.0f} ms |\n"
        f"| {many['visitors']} visitors at once, {many['requests']} requests | {len(many['wrong_texts'])} "
        f"got another's text, of {many['different_texts']} different ones; served at most "
        f"{many['places_out_of_order']} places out of order; the last in line was told of "
        f"{many['largest_rank_seen']} before them; {many['seconds'] / many['requests']:.2f} s a request |\n"
        f"| memory of the studio meanwhile; each request is of a new visitor | {memory[0]:.0f} MiB after "
        f"{EVERY}, {memory[VISITORS_KEPT // EVERY]:.0f} MiB after {VISITORS_KEPT + EVERY}, when the first "
        f"are forgotten, {memory[len(memory) // 2]:.0f} MiB in the middle, {memory[-1]:.0f} MiB at the "
        "end |\n"
    )


def main() -> None:
    """Measures and writes both reports."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--visitors", type=int, default=20)
    parser.add_argument("--recordings", type=int, default=RECORDINGS)
    given = parser.parse_args()
    found: dict[str, Any] = {"schema_version": 1, "machine": machine(), "switching": adapter_switching()}
    print(found["switching"], flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environ = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9"}
        with StudioProcess(folder / "home", environ) as studio:
            found["record_stop"] = after_the_stop(studio, folder, given.recordings)
            found["visitors"] = many_at_once(studio, given.visitors, given.requests, folder)
    found["load"] = os.getloadavg()[0]
    (REPORTS / "visitors.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (REPORTS / "visitors.md").write_text(report(found), encoding="utf-8")
    print(report(found))


if __name__ == "__main__":
    main()
