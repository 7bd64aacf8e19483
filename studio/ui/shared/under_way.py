"""What is shown while a model is got ready and listens: its export, the place in the line, a run at work."""

from dataclasses import dataclass

from studio.reports.markup import Html
from studio.reports.pieces import note, progress_bar
from studio.sentences import Sentence
from studio.transcription.model_cache import ModelCache
from studio.translation import tr


@dataclass(frozen=True)
class Step:
    """How far an export is, which faster-whisper needs of a model that it has not played yet."""

    doing: Sentence
    share: float


def step_bar(step: Step, locale: str) -> Html:
    """How far an export is."""
    return progress_bar(step.share, tr(step.doing.template, locale, **step.doing.values))


def waiting_note(before: int, locale: str) -> Html:
    """What somebody reads whose turn has not come."""
    if before == 1:
        return note(tr("One visitor is before you: yours is next.", locale))
    return note(tr("{count} visitors are before you.", locale, count=before))


def shared_note(engines: ModelCache, locale: str) -> Html:
    """What somebody reads whose model shares the machine with a run; nothing while no run is at work.

    Not for the event loop: whether there is a GPU is known once torch is there.
    """
    notice = engines.notice()
    return note(tr(notice.template, locale, **notice.values), "warning") if notice else Html("")
