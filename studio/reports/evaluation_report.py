"""An evaluation in one HTML file that needs nothing else: figures, what is wrong, and the worst clips."""

import base64
import io
from collections.abc import Iterable
from pathlib import Path

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.errors import DataError
from studio.evaluation.explorer import Explorer, Query
from studio.evaluation.result import Evaluation, UtteranceRow
from studio.reports.data_report import report_file
from studio.reports.evaluation_views import (
    GROUPING_LABELS,
    clip_table,
    comparison_sentences,
    group_bars,
    left_out_rows,
    normalizers_table,
    rates_table,
    script_note,
    with_names,
    words_view,
)
from studio.reports.markup import Child, Html, join, tag
from studio.reports.pieces import folded
from studio.translation import tr

MOST_CLIPS = 500
"""In the file; JSON and CSV have all."""
_STYLE = """
.word-tables { display: grid; gap: 1rem; }
.word-tables { grid-template-columns: repeat(auto-fit, minmax(min(12rem, 100%), 1fr)); }
.group-bar { background: #3b82c4; height: .8em; min-width: 1px; }
.clip-rate { opacity: .7; margin-right: .5em; white-space: nowrap; }
del { background: #cf4f7433; } ins { background: #1d9f8e33; text-decoration: none; }
mark { background: #d9912b44; color: inherit; } .diff-legend { display: flex; gap: 1rem; }
audio { width: 14rem; max-width: 100%; display: block; } .subdued { opacity: .7; }
.number { white-space: nowrap; } .group-bars td:last-child { width: 45%; } td { vertical-align: top; }
.table-scroll { overflow-x: auto; } summary { font-weight: 600; margin-top: 1rem; }
bdi { overflow-wrap: anywhere; }
th.number { white-space: normal; overflow-wrap: normal; } th:last-child { overflow-wrap: normal; }
.utterances td:first-child, .normalizers td:first-child { min-width: 9rem; }
.group-bars th:first-child { min-width: 7rem; }
@media (max-width: 640px) {
.group-bars td:last-child { width: 25%; } .stacked .number { white-space: normal; }
}
"""


def evaluation_report(found: Evaluation, explorer: Explorer | None, locale: str, *, has_sound: bool) -> str:
    """The whole file; every text in it is escaped, and no script is in it.

    `explorer` is that of `found`, None if it has no clip. With sound, clips that can be read are embedded.
    """
    rows, metric = with_names(found.figures(), explorer), found.metric
    title = f"{tr('Evaluation', locale)}: {Path(found.source).name}"
    body: list[Child] = [
        tag("h1", title),
        left_out_rows(found.problems, locale),
        rates_table(rows["models"], locale, metric),
        comparison_sentences(rows, locale, metric),
        script_note(rows, locale),
        tag("h2", tr("Every text normalization", locale)),
        normalizers_table(rows["normalizers"], locale, metric),
    ]
    if explorer:
        body += [_of_model(explorer, model, locale) for model in range(len(explorer.models))]
        body.append(_clips(explorer, locale, has_sound=has_sound))
    return report_file(title, join(body), locale, _STYLE)


def _of_model(explorer: Explorer, model: int, locale: str) -> Html:
    """What is wrong with the texts of one model, folded away."""
    bars = [
        group_bars(explorer.groups(by, model), tr(GROUPING_LABELS[by], locale), locale)
        for by in explorer.groupings
    ]
    title = tr("Where {model} is wrong", locale, model=explorer.names[model])
    return folded(title, words_view(explorer, model, locale, is_live=False), bars, open=True)


def _clips(explorer: Explorer, locale: str, *, has_sound: bool) -> Html:
    """Those with the most errors of the last model."""
    places = explorer.select(Query(len(explorer.models) - 1)).tolist()
    shown = places[:MOST_CLIPS]
    sounds = dict(_sounds(explorer, shown)) if has_sound else {}
    told = tr(
        "{shown} of {total} clips, those with the most errors first.",
        locale,
        shown=len(shown),
        total=len(places),
    )
    return tag(
        "section",
        tag("h2", tr("Clips", locale)),
        tag("p", told),
        clip_table(explorer, shown, locale, sounds, is_live=False),
    )


def _sounds(explorer: Explorer, places: Iterable[int]) -> Iterable[tuple[int, str]]:
    for place in places:
        try:
            yield place, sound_address(explorer.clips[place])
        except DataError:
            continue  # the file was moved meanwhile: the clip stands there without its sound


def sound_address(clip: UtteranceRow) -> str:
    """The sound of a clip as an address that holds it: nothing is kept on a server.

    Raises:
        AudioError: if it cannot be read.
    """
    import soundfile

    samples = read_audio(Path(clip.audio_path), clip.start_seconds, clip.end_seconds)
    packed = io.BytesIO()
    soundfile.write(packed, samples, SAMPLING_RATE, format="FLAC", subtype="PCM_16")
    return f"data:audio/flac;base64,{base64.b64encode(packed.getvalue()).decode()}"
