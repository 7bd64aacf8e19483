"""`demo`: the guided tour in the terminal: size, train, compare, transcribe, all offline."""

from collections.abc import Callable, Sequence

from studio.actions.estimate import Question, answer
from studio.actions.start_run import start_run
from studio.cli.follow import as_dict, before_and_after, follow, tell
from studio.cli.output import say, show, show_json
from studio.cli.parsing import PROGRAM, Parser
from studio.dataset.manifest import Example, read_manifest
from studio.options.training import TrainingConfig
from studio.registry.store import DEMO_ID
from studio.runs.manager import JobState, RunStatus
from studio.services import Services
from studio.settings import Settings
from studio.training.run_dir import RunDir
from studio.transcription.engine import TranscribeOptions
from studio.units import format_bytes

Story = Callable[[str], None]
"""Where the tour is told: on standard output, or beside the JSON on standard error."""

RECIPE = TrainingConfig(run_name="demo-tour")
"""The one that the page opens with."""
_SAMPLES = 3
_FOR_SCALE = ("tiny", "small", "large-v3-turbo")


def parser() -> Parser:
    """No choices to make."""
    made = Parser("demo", "A tour in five minutes, offline: estimate, train, compare, transcribe.")
    made.flag("json", "Print JSON.")
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Walks through the four uses with the demo model and the demo speech; 1 if the run fails."""
    given = parser().read(arguments)
    tell_story = say if given.json else show
    with Services.open(settings) as services:
        _size(services, tell_story)
        status = _train(services, tell_story)
        model = status.model_id if status.state is JobState.FINISHED else None
        heard = _listen(services, model, tell_story) if model else []
    if not model:
        tell(status, tell_story, is_followed=True)
    if given.json:
        show_json({**as_dict(status, RunDir(settings.runs / status.run_id)), "heard": heard})
    elif model:
        show("4. Your turn")
        show(f"   The page:      {PROGRAM} app")
        show(f"   Another file:  {PROGRAM} transcribe --model {model} recording.wav")
        show(f"   Your own data: {PROGRAM} train --base_model tiny --train_data my.jsonl")
    return 0 if model else 1


def _size(services: Services, story: Story) -> None:
    story("1. Estimate: what does training need?")
    for model in (DEMO_ID, *_FOR_SCALE):
        found = answer(Question(model), services.registry)
        story(
            f"   {model.ljust(16)}{format_bytes(found.estimate.device_bytes).rjust(10)}, LoRA, batches of 8"
        )
    story(f"   Part by part: {PROGRAM} estimate --base_model small --gpu 'RTX 4090'")


def _train(services: Services, story: Story) -> RunStatus:
    story("")
    story("2. Train: an adapter for speech that the demo model gets wrong")
    run_id = start_run(RECIPE, services)
    services.jobs.start()
    status = follow(services.jobs, run_id)
    for line in before_and_after(status):
        story(f"   {line}")
    return status


def _listen(services: Services, adapter: str, story: Story) -> list[dict[str, str]]:
    story("")
    story("3. Transcribe: recordings that neither model was trained on")
    heard = []
    for example in read_manifest("demo:test", services.settings, max_rows=_SAMPLES).examples:
        row = {"audio_path": str(example.audio_path), "reference": example.text}
        for name, model in (("base", DEMO_ID), ("adapter", adapter)):
            row[name] = services.engines.transcribe(model, example.audio_path, _options(example)).text.strip()
        heard.append(row)
        story(f"   said     {row['reference']}")
        story(f"   base     {row['base']}")
        story(f"   adapter  {row['adapter']}")
        story("")
    return heard


def _options(example: Example) -> TranscribeOptions:
    return TranscribeOptions(language=example.language or "auto", timestamps="none")
