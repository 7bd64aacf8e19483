"""The check of a data set for page, command line and programs: rows, then labels against a model's text."""

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from studio.dataset.example import Example, in_order
from studio.dataset.manifest import read_manifest
from studio.dataset.report import WARNINGS, DatasetReport, check_dataset, write_quarantine
from studio.dataset.sequences import chosen
from studio.errors import ConfigError
from studio.evaluation.normalize import normalization_examples
from studio.evaluation.suspicious import HeardLabel, hear_labels
from studio.files import storage_errors
from studio.lazy_imports import transformers_library
from studio.options.training import TrainingConfig
from studio.services import Services
from studio.training.data.clips import clip_maker
from studio.training.data.sources import require_teachable
from studio.transcription.languages import resolve_language
from studio.transcription.special_tokens import SpecialTokens
from studio.watching import ShouldStop, never, untold

_READ_FOR_EXAMPLES = 2000
LISTENING, TRANSCRIBING = "listening", "transcribing"

OnProgress = Callable[[str, int, int], None]
"""`LISTENING` or `TRANSCRIBING`, clips done, clips in all."""


@dataclass(frozen=True)
class CheckQuestion:
    """What to check; the names are those of the command line."""

    train_data: str
    test_data: str = ""
    base_model: str = ""
    """Whose tokens labels are counted in, and who listens if `transcribe` says so; empty: nobody."""
    transcribe: int = 0
    """So many clips, drawn at random, are transcribed by the base model; -1: all."""
    normalizer: str = "none"
    language: str = "auto"
    min_audio_len: float = 0.2
    max_audio_len: float = 30.0
    max_rows: int | None = None
    local_files_only: bool = False
    audio_column: str = ""
    text_column: str = ""


@dataclass(frozen=True)
class CheckAnswer:
    """What was found."""

    report: DatasetReport
    labels: tuple[HeardLabel, ...]
    """The worst first."""
    examples: tuple[tuple[str, str], ...]
    """Labels that the normaliser changes, before and after."""
    quarantine: Path | None
    """Where the rows that cannot be used are listed; None if there are none."""

    def to_json(self) -> dict[str, Any]:
        """The answer of `check-data --json`."""
        return {
            **self.report.to_json(),
            "heard": [label.to_json() for label in self.labels],
            "normalized": [{"before": before, "after": after} for before, after in self.examples],
            "quarantine": str(self.quarantine) if self.quarantine else None,
        }


def check(
    question: CheckQuestion,
    services: Services,
    *,
    quarantine: Path | None = None,
    on_progress: OnProgress = untold,
    should_stop: ShouldStop = never,
) -> CheckAnswer:
    """Checks the rows, and has the base model transcribe some of the clips if it is asked to.

    Rows that cannot be used go to `quarantine`, by default a file in the studio's folder of that name.

    Raises:
        ManifestError, HubUnreachableError: if the data cannot be read.
        ConfigError, ModelError: if the model is unknown or cannot be used, or the quarantine is another file.
        StorageError: if the quarantine cannot be written.
    """
    if quarantine is not None:
        _require_own_list(quarantine)
    names = ("max_rows", "local_files_only", "audio_column", "text_column")
    common: dict[str, Any] = {name: getattr(question, name) for name in names}
    label_length = _label_length(question, services)
    manifest = read_manifest(question.train_data, services.settings, **common)
    test = None
    if question.test_data:
        test = read_manifest(question.test_data, services.settings, split="test", **common)
    report = check_dataset(
        manifest,
        test,
        label_length=label_length,
        counts_tokens=bool(question.base_model),
        min_audio_len=question.min_audio_len,
        max_audio_len=question.max_audio_len,
        on_progress=partial(on_progress, LISTENING),
        should_stop=should_stop,
    )
    examples = manifest.examples
    labels: list[HeardLabel] = []
    if question.transcribe and question.base_model and report.is_complete:
        taught = chosen(examples, _transcripts(examples, label_length))
        labels = _heard(question, services, taught, on_progress, should_stop)
        report = _with_doubts(report, labels)
    texts = (example.text for example in islice(examples, _READ_FOR_EXAMPLES))
    changed = normalization_examples(texts, question.normalizer)
    return CheckAnswer(report, tuple(labels), tuple(changed), _set_aside(report, services, quarantine))


def _heard(
    question: CheckQuestion,
    services: Services,
    examples: Sequence[Example],
    on_progress: OnProgress,
    should_stop: ShouldStop,
) -> list[HeardLabel]:
    """What the base model hears in the clips that are asked for."""
    return hear_labels(
        services.engines,
        question.base_model,
        examples,
        sample=question.transcribe if question.transcribe > 0 else None,
        language=question.language,
        on_progress=partial(on_progress, TRANSCRIBING),
        should_stop=should_stop,
    )


def _label_length(question: CheckQuestion, services: Services) -> Callable[[Example], int]:
    """How long the labels of a run are: in tokens of the base model, in characters if none is named."""
    config = TrainingConfig(language=question.language, normalizer=question.normalizer)
    if not question.base_model:
        return characters_of_labels(config)
    registry = services.registry
    folder = registry.local_path(question.base_model, local_files_only=question.local_files_only)
    is_multilingual = registry.get(question.base_model).is_multilingual
    return _tokens_of_labels(config, folder, is_multilingual=is_multilingual)


def _tokens_of_labels(
    config: TrainingConfig, folder: Path, *, is_multilingual: bool
) -> Callable[[Example], int]:
    """Counts the tokens of the label that a row gets, as the tokenizer in `folder` makes them.

    Raises:
        ConfigError: if the model lacks the run's language; what comes back raises it for a row's.
        ModelBrokenError: if the tokenizer is none of a Whisper.
    """
    tokenizer = transformers_library().WhisperTokenizer.from_pretrained(folder, local_files_only=True)
    tokens = SpecialTokens.of(tokenizer, is_multilingual=is_multilingual)

    def encode(text: str) -> list[int]:
        """Text tokens of a text."""
        ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        return [token for token in ids if token < tokens.end]

    any_language = next(iter(tokens.languages), None)
    make = clip_maker(config, tokens, encode, any_language)

    def count(example: Example) -> int:
        require_teachable(example, config)
        return make(example, with_times=config.timestamps).most_tokens

    return count


def characters_of_labels(config: TrainingConfig) -> Callable[[Example], int]:
    """Counts the characters of a row's text, where no model is chosen.

    Raises:
        ConfigError: if the run's language is none of Whisper's; what comes back raises it for a row's.
    """
    resolve_language(config.language)

    def count(example: Example) -> int:
        require_teachable(example, config)
        return len(example.text)

    return count


def _transcripts(examples: Sequence[Example], label_length: Callable[[Example], int]) -> list[int]:
    """Places of the examples whose label says what is spoken; a translation may be worded in many ways."""
    places = []
    for place, example in enumerate(examples):
        if example.task == "translate":
            continue
        with suppress(ConfigError):
            label_length(example)
            places.append(place)
    return places


def _with_doubts(report: DatasetReport, labels: Sequence[HeardLabel]) -> DatasetReport:
    found = (problem for label in labels for problem in label.problems)
    return replace(report, problems=in_order((*report.problems, *found)))


def _set_aside(report: DatasetReport, services: Services, quarantine: Path | None) -> Path | None:
    """Writes the list of unusable rows, if there are any; that of an earlier check is emptied if not."""
    if quarantine is None:
        if services.settings.visitor:  # of a Space, who could not read it there
            return None
        name = Path(report.source).stem or "data"
        mark = hashlib.sha256(os.fsencode(report.source)).hexdigest()[:8]
        quarantine = services.settings.quarantine / f"{name[:60]}-{mark}.jsonl"
    is_clean = all(problem.kind in WARNINGS for problem in report.problems)
    if not is_clean or quarantine.is_file():
        write_quarantine(report.problems, quarantine)
    return None if is_clean else quarantine


def _require_own_list(path: Path) -> None:
    """Makes sure before a check that its list of unusable rows replaces no other file."""
    with storage_errors(path):
        if not path.is_file():
            return
        with path.open("rb") as file:
            beginning = file.read(8)
    if beginning not in (b"", b'{"line":'):
        raise ConfigError(
            "{path} is there, and is no list of an earlier check: name another file for the unusable rows.",
            path=path,
        )
