"""`evaluate --forms`: the forms of one model beside each other, and what was kept of that in its card."""

import argparse
from collections.abc import Set

from studio.actions.forms import compare_forms
from studio.cli.clips import refuse_clip_options
from studio.cli.decoding import choice_of
from studio.cli.export import on_step
from studio.cli.models import forms_text
from studio.cli.output import ProgressLine, give, say
from studio.errors import ConfigError
from studio.evaluation.compare import EvaluationRequest
from studio.files import write_json
from studio.services import Services
from studio.settings import Settings
from studio.transcription.engine import EngineChoice
from studio.units import names

SCHEMA_VERSION = 1


def compare(given: argparse.Namespace, named: Set[str], settings: Settings, asked: EvaluationRequest) -> int:
    """What `evaluate` was given, with `--forms`; the options are `named`."""
    if len(asked.models) != 1 or not given.data or given.audio_path:
        raise ConfigError("--forms compares the forms of one model on a test set: give --model and --data.")
    if (given.output_file and given.output_file.suffix.lower() in (".csv", ".html")) or given.errors:
        raise ConfigError("--forms writes JSON and prints its table: leave out --errors, .csv and .html.")
    if given.corrections or given.non_speech:
        raise ConfigError(
            "--forms counts errors of a test set as it is: leave out --corrections, --non_speech."
        )
    refuse_clip_options(named, "--forms")
    if choice_of(given) != EngineChoice():
        raise ConfigError("--forms plays each form by its own engine: name those that you want in --forms.")
    wanted = [] if given.forms == "all" else names(given.forms)
    with Services.open(settings) as services, ProgressLine() as line:
        found = compare_forms(services, asked, wanted, on_step=on_step(line))
    if found.what_stays:
        say(str(found.what_stays))
    told = {"schema_version": SCHEMA_VERSION, **found.to_json()}
    if given.output_file:
        write_json(given.output_file, told)
        say(f"Wrote {given.output_file}")
    give(given.json, told, forms_text(told))
    return 0
