"""Evaluations as the visitor sees them: pure functions from results to HTML."""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from studio.dataset.example import RowProblem
from studio.dataset.marks import NO_SPEECH
from studio.evaluation.corrections import LONGEST
from studio.evaluation.explorer import Explorer, Group
from studio.evaluation.metrics import AlignedPiece, align, in_order
from studio.evaluation.result import UtteranceRow, counted_first, worth_of
from studio.evaluation.scripts import script_sentences
from studio.evaluation.side_by_side import SideBySide
from studio.options.choices import NORMALIZERS
from studio.reports.data_views import problems_table
from studio.reports.language_names import language_name
from studio.reports.markup import Child, Html, table, tag
from studio.reports.pieces import button, folded
from studio.translation import N_, paragraph, said, tr
from studio.units import format_percent


def with_names(figures: Mapping[str, Any], explorer: Explorer | None) -> dict[str, Any]:
    """The figures of an evaluation with what its models are called in place of their ids."""
    names = dict(zip(explorer.models, explorer.names, strict=True)) if explorer else {}

    def renamed(part: str, *keys: str) -> list[dict[str, Any]]:
        return [{**row, **{key: names.get(row[key], row[key]) for key in keys}} for row in figures[part]]

    parts = {"models": ("id",), "comparisons": ("a", "b"), "normalizers": ("model",)}
    return {**figures, **{part: renamed(part, *keys) for part, keys in parts.items()}}


_RATES = {"wer": N_("WER (words)"), "cer": N_("CER (characters)")}


def rates_table(models: Sequence[Mapping[str, Any]], locale: str, metric: str) -> Html:
    """A row a model; the lowest rate of the `metric` that counts is set in bold, and comes first."""
    counted, other = in_order(metric)
    headers = [
        tr(text, locale)
        for text in (
            N_("Model"),
            _RATES[counted],
            _RATES[other],
            N_("MER (mixed)"),
            N_("Real-time factor"),
            N_("Clips"),
        )
    ]
    has_figure = any(row.get("non_speech") for row in models)
    if has_figure:
        headers += [tr("Hallucinated (words/h)", locale), tr("Loops", locale)]
    best = min((row[counted] for row in models), default=None)
    rows: list[list[Child]] = [
        [
            str(row["id"]),
            tag("b" if row[counted] == best else "span", format_percent(row[counted])),
            format_percent(row[other]),
            format_percent(row["mer"]),
            f"{row['real_time_factor']:.3f}",
            str(row["n"]),
            *(_figure(row.get("non_speech")) if has_figure else ()),
        ]
        for row in models
    ]
    return table(headers, rows, numeric=range(1, len(headers)), class_="stacked rates-table")


def _figure(non_speech: Mapping[str, Any] | None) -> list[str]:
    if not non_speech:
        return ["–", "–"]
    return [f"{non_speech['words_per_hour']:,.0f}", format_percent(non_speech["loop_rate"])]


def comparison_sentences(found: Mapping[str, Any], locale: str, metric: str) -> Html:
    """What the difference between two models is worth, one sentence a pair and metric; first the `metric`
    that counts.
    """
    compared = counted_first(found["comparisons"], metric)
    rows = [tag("li", _comparison(row, worth_of(row, found), locale)) for row in compared]
    return tag("ul", rows, class_="comparisons")


_WORTH = {
    "script": N_(
        "{metric}: {better} makes {points} points fewer errors than {worse} (95 % interval {low} to "
        "{high}): more than chance, but characters of another script count as errors here."
    ),
    "real": N_(
        "{metric}: {better} makes {points} points fewer errors than {worse} (95 % interval {low} to "
        "{high}): a real difference."
    ),
    "chance": N_(
        "{metric}: {better} and {worse} differ by {points} points (95 % interval {low} to {high}): this "
        "may be chance."
    ),
    "few": N_(
        "{metric}: {better} and {worse} differ by {points} points (95 % interval {low} to {high}): too few "
        "clips to tell."
    ),
}


def _comparison(row: Mapping[str, Any], worth: str, locale: str) -> str:
    if not (row["better"] or row["worse"]):
        alike = N_("{metric}: {a} and {b} make as many errors in every clip.")
        return tr(alike, locale, metric=str(row["metric"]).upper(), a=row["a"], b=row["b"])
    # The difference is b minus a: below zero, b makes fewer errors.
    better, worse, low, high = row["a"], row["b"], row["ci_low"], row["ci_high"]
    if row["difference"] < 0:
        better, worse, low, high = worse, better, -high, -low
    values = {
        "metric": str(row["metric"]).upper(),
        "better": better,
        "worse": worse,
        "points": f"{100 * abs(row['difference']):.1f}",
        "low": f"{100 * low:.1f}",
        "high": f"{100 * high:.1f}",
    }
    decide = N_("{b} makes fewer errors than {a} in {better} clips, more in {worse}.")
    counts = {name: row[name] for name in ("a", "b", "better", "worse")}
    return paragraph([tr(_WORTH[worth], locale, **values), tr(decide, locale, **counts)], locale)


def left_out_rows(
    problems: Sequence[RowProblem],
    locale: str,
    text: str = N_("Rows left out, because they cannot be used: {count}."),
) -> Html | None:
    """How many rows of the test data the figures are without, and, unfolded, which and why."""
    if not problems:
        return None
    told = tr(text, locale, count=len(problems))
    return folded(told, problems_table(problems, locale), class_="note note-warning")


def script_note(found: Mapping[str, Any], locale: str) -> Html:
    """Which script each model writes, where the texts are Chinese."""
    sentences = script_sentences(found)
    if not sentences:
        return tag("div")
    return tag("ul", [tag("li", said(one, locale)) for one in sentences], class_="comparisons")


def normalizers_table(rows: Sequence[Mapping[str, Any]], locale: str, metric: str) -> Html:
    """A row a text normalization: the same texts after it, of each model, and the clips that decide."""
    rates = in_order(metric)
    models = list(dict.fromkeys(str(row["model"]) for row in rows))
    headers = [tr("Text normalization", locale)]
    shown: dict[str, list[Child]] = {}
    for row in rows:
        cells = shown.setdefault(row["normalizer"], [tr(NORMALIZERS[row["normalizer"]], locale)])
        cells += [format_percent(row[rate]) for rate in rates]
        if row["model"] != models[0]:
            cells.append(f"+{row['better']} −{row['worse']}")
    for model in models:
        headers += [f"{model}: {rate.upper()}" for rate in rates]
        if model != models[0]:
            headers.append(f"{model}: {tr('clips better, worse', locale)}")
    return table(headers, shown.values(), numeric=range(1, len(headers)), class_="stacked normalizers")


# ---------------------------------------------------------------------- what is wrong, and where

_WORDS_SHOWN, _MOST_WORDS = 12, 500
"""Rows in sight, and with those that can be unfolded; the files have all of them."""
SHOWN_LABELS = {
    "all": N_("All clips"),
    "errors": N_("Clips with errors"),
    "lost": N_("Worse than the other model"),
    "gained": N_("Better than the other model"),
    "silence": N_("Text where nobody speaks"),
    "loops": N_("Repetitions"),
    "unsure": N_("Texts that the model is unsure of"),
    "corrected": N_("Corrected references"),
}
SORT_LABELS = {
    "worst": N_("Most errors first"),
    "list": N_("As in the list"),
    "difference": N_("Largest difference first"),
    "unsure": N_("Unsure first"),
    "longest": N_("Longest first"),
    "shortest": N_("Shortest first"),
}
GROUPING_LABELS = {
    "duration": N_("Length of the clip"),
    "speaker": N_("Speaker"),
    "language": N_("Language"),
    "loudness": N_("Loudness"),
    "speed": N_("Characters per second"),
}


def asking(text: Child, question: Mapping[str, Any] | None, **more: object) -> Child:
    """A button that asks the explorer something; without a question the text alone."""
    if question is None:
        return text
    asked = json.dumps(question, ensure_ascii=False)
    return button(text, "ask", data_ask=asked, **more)


def words_view(explorer: Explorer, model: int, locale: str, *, is_live: bool = True) -> Html:
    """The words that are most often wrong, what is written instead, left out or put in, and those that are
    always right; and on silence.

    If it `is_live`, each is a button that asks for its clips.
    """
    errors, silence = explorer.errors[model], explorer.summary_of_silence(model)

    def asked(said: str | None, written: str | None) -> dict[str, Any] | None:
        return {"said": said, "written": written} if is_live else None

    vocabulary = errors.words_by_errors()
    words = [
        [
            asking(_word(row.word), asked(row.word, None)),
            row.said,
            tag("span", format_percent(row.right / row.said), title=str(row.right)),
        ]
        for row in vocabulary[:_MOST_WORDS]
        if row.right < row.said
    ]
    right = sorted((row for row in vocabulary if row.right == row.said), key=lambda row: -row.said)
    always: list[list[Child]] = [[_word(row.word), row.said] for row in right[:_MOST_WORDS]]
    confusions = [
        [asking([_word(said), " → ", _word(written)], asked(said, written)), count]
        for (said, written), count in errors.most_frequent("confusion")[:_MOST_WORDS]
    ]
    deletions = [
        [asking(_word(said), asked(said, "")), count]
        for (said, _), count in errors.most_frequent("deletion")[:_MOST_WORDS]
    ]
    insertions = [
        [asking(_word(written), asked("", written)), count]
        for (_, written), count in errors.most_frequent("insertion")[:_MOST_WORDS]
    ]
    often = tr("times", locale)
    tables = [
        ([tr("Words most often wrong", locale), tr("said", locale), tr("right", locale)], words),
        ([tr("Said → written", locale), often], confusions),
        ([tr("Deleted words", locale), often], deletions),
        ([tr("Inserted words", locale), often], insertions),
        ([tr("Words always right", locale), tr("said", locale)], always),
    ]
    told = []
    if silence["clips"]:
        text = N_("{clips} clips have no speech: text was written in {with_text} of them, {words} words.")
        told.append(tr(text, locale, **silence))
    if loops := int(errors.is_loop.sum()):
        told.append(tr("Repetitions without end in {count} clips.", locale, count=loops))
    return tag(
        "div",
        tag("div", [_words(head, rows, locale) for head, rows in tables if rows], class_="word-tables"),
        tag("ul", [tag("li", sentence) for sentence in told], class_="comparisons") if told else None,
    )


def _words(head: Sequence[str], rows: Sequence[list[Child]], locale: str) -> Html:
    """A table of words, whose later rows are folded away."""
    first = table(head, rows[:_WORDS_SHOWN], numeric=[1, 2])
    if not (rest := rows[_WORDS_SHOWN:]):
        return tag("div", first)
    more = tr("{count} more", locale, count=len(rest))
    return tag("div", first, folded(more, table(head, rest, numeric=[1, 2])))


def _word(word: str) -> Html:
    return tag("bdi", word)


def clip_table(
    explorer: Explorer,
    places: Sequence[int],
    locale: str,
    sounds: Mapping[int, str] | None = None,
    corrected: Mapping[int, str] | None = None,
    *,
    is_live: bool = True,
) -> Html:
    """Clips with what was said and what each model wrote, differences marked.

    `sounds` are addresses of the clips that can be heard, `corrected` are references that somebody has
    corrected. If it `is_live`, the others have a button to be heard, and each reference one to be corrected.
    """
    sounds, corrected = sounds or {}, corrected or {}
    headers = [tr("Audio", locale), tr("Reference", locale), *explorer.names, tr("Length", locale)]
    rows: list[list[Child]] = []
    for place in places:
        clip = explorer.clips[place]
        reference = corrected.get(place, clip.reference)
        written = [
            [
                tag(
                    "span",
                    format_percent(explorer.rate(model, place, corrected.get(place))),
                    class_="clip-rate",
                ),
                _sure(explorer.confidences[model][place], locale),
                difference(reference, texts[place]),
            ]
            for model, texts in enumerate(explorer.texts)
        ]
        length = tr("{seconds:.1f} s", locale, seconds=clip.duration_seconds)
        about = [
            length.replace(" ", "\u00a0"),
            clip.speaker or "",
            language_name(clip.language or "", locale),
        ]
        rows.append(
            [
                [_sound(place, sounds.get(place), clip, locale, is_live=is_live)],
                _reference(place, clip, corrected.get(place), locale)
                if is_live
                else tag("span", reference, dir="auto"),
                *written,
                tag("span", " · ".join(filter(None, about))),
            ]
        )
    return tag("div", difference_legend(locale), table(headers, rows, class_="utterances stacked"))


def _sure(confidence: float, locale: str) -> Html | None:
    """How sure the model was of a text, if that is known."""
    if math.isnan(confidence):
        return None
    about = tr("Geometric mean of the probabilities of its tokens", locale)
    told = tr("{share} sure", locale, share=format_percent(confidence))
    return tag("span", told, class_="clip-rate", title=about)


def _reference(place: int, clip: UtteranceRow, corrected: str | None, locale: str) -> Html:
    """What is said, and behind a button a field to correct it in (see `explorer.js`)."""
    line = said(clip.place, locale)
    shown = clip.reference if corrected is None else corrected
    correct, back = tr("Correct the reference", locale), tr("Undo the correction", locale)
    is_corrected = corrected is not None
    return tag(
        "div",
        tag("span", shown or tag("i", tr("(no speech)", locale)), dir="auto", class_="reference"),
        tag(
            "span",
            button("✎", "ask", data_edit=place, title=correct, aria_label=f"{correct}: {line}"),
            asking("↶", {"correct": [[place, None]]}, title=back, aria_label=f"{back}: {line}")
            if is_corrected
            else None,
            tag("span", tr("corrected", locale), class_="badge badge-warning", title=clip.reference)
            if is_corrected
            else None,
            class_="clip-tools",
        ),
        tag(
            *("textarea", shown or NO_SPEECH),
            class_="correction",
            rows=2,
            hidden=True,
            dir="auto",
            maxlength=LONGEST,
            data_place=place,
            title=tr("Enter keeps it, Esc leaves it as it was.", locale),
            aria_label=f"{tr('Reference', locale)}: {line}",
        ),
        class_="clip-reference",
    )


def _sound(place: int, source: str | None, clip: UtteranceRow, locale: str, *, is_live: bool) -> Html:
    name = re.split(r"[\\/]", clip.audio_path)[-1]
    line = said(clip.place, locale)
    shown = tag("span", line, title=name, class_="subdued")
    if source:
        sound = tag("audio", controls=True, autoplay=is_live, preload="metadata", src=source, aria_label=line)
        return tag("div", sound, shown, class_="clip-sound")
    heard = f"{tr('Play', locale)}: {line}"
    play = asking("▶", {"play": place}, aria_label=heard, title=name) if is_live else None
    return tag("div", play, shown, class_="clip-sound")


def group_bars(groups: Sequence[Group], title: str, locale: str) -> Html:
    """Errors of each group as bars that need no script."""
    headers = [title, tr("Clips", locale), tr("Errors (MER)", locale), ""]
    most = max((group.rate for group in groups), default=0.0) or 1.0
    rows: list[list[Child]] = [
        [
            tag("bdi", said(group.label, locale)),
            group.clips,
            format_percent(group.rate),
            tag("div", class_="group-bar", style=f"width:{100 * group.rate / most:.1f}%"),
        ]
        for group in groups
    ]
    return table(headers, rows, numeric=[1, 2], class_="group-bars")


def difference_legend(locale: str) -> Html:
    """What the marks of `difference` mean."""
    return tag(
        "p",
        tag("del", tr("deleted", locale)),
        " ",
        tag("ins", tr("inserted", locale)),
        " ",
        tag("mark", tr("substituted", locale)),
        class_="diff-legend",
    )


def side_by_side_view(found: SideBySide, locale: str, name: Callable[[str], str] = str) -> Html:
    """A row a model: what it wrote against the reference, or against the first model, and its error rates,
    first the one that counts; and whose characters are of another script.

    `name` gives what a model of an id is called.
    """
    order = in_order(found.metric)
    headers = [tr(text, locale) for text in (N_("Model"), N_("Model output"))]
    rates = [tr(_RATES[rate], locale) for rate in order]
    rows: list[list[Child]] = []
    for hearing in found.hearings:
        shown = tag("span", [[_piece(piece), " "] for piece in hearing.pieces], class_="diff", dir="auto")
        row: list[Child] = [name(hearing.transcript.model), shown]
        if hearing.wer is not None and hearing.cer is not None:
            both = {"wer": hearing.wer, "cer": hearing.cer}
            row += [format_percent(both[rate]) for rate in order]
        rows.append(row)
    titles = [*headers, *rates] if found.reference else headers
    told = [tag("li", said(one, locale)) for one in found.script_sentences(name)]
    return tag(
        "div",
        difference_legend(locale),
        table(titles, rows, numeric=[2, 3], class_="side-by-side stacked"),
        tag("ul", told, class_="comparisons") if told else None,
    )


def difference(reference: str, hypothesis: str) -> Html:
    """The hypothesis with what was left out, put in or written instead marked."""
    pieces = [[_piece(piece), " "] for piece in align(reference, hypothesis)]
    return tag("span", pieces, class_="diff", dir="auto")


def _piece(piece: AlignedPiece) -> Child:
    if piece.kind == "equal":
        return piece.hypothesis
    if piece.kind == "delete":
        return tag("del", piece.reference)
    if piece.kind == "insert":
        return tag("ins", piece.hypothesis)
    return tag("mark", piece.hypothesis, title=piece.reference)
