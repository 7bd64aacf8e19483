"""Transcripts and evaluations as the visitor sees them: pure functions from results to HTML."""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from studio.evaluation.metrics import AlignedPiece, align
from studio.inference.engine import Segment, Transcript, Word
from studio.registry.languages import LANGUAGES
from studio.ui.i18n import N_, tr
from studio.ui.markup import Child, Html, table, tag
from studio.ui.views import facts
from studio.units import format_clock, format_duration, format_percent


def language_name(code: str) -> str:
    """`zh` → `Chinese`; a code nobody knows stays as it is."""
    return LANGUAGES.get(code, code).title()


def language_choices(locale: str) -> list[tuple[str, str]]:
    """Every language of Whisper for a dropdown, after `auto`."""
    named = sorted((f"{name.title()} ({code})", code) for code, name in LANGUAGES.items())
    return [(tr("Automatic", locale), "auto"), *named]


def transcript_facts(transcript: Transcript, locale: str) -> Html:
    """Language, length and speed of one transcription."""
    return facts(
        [
            (tr("Language", locale), language_name(transcript.language)),
            (tr("Length", locale), format_duration(transcript.duration_seconds)),
            (tr("Took", locale), format_duration(transcript.processing_seconds)),
            (tr("Real-time factor", locale), f"{transcript.real_time_factor:.2f}"),
            (tr("Model", locale), transcript.model),
        ]
    )


def segment_list(segments: Sequence[Segment], audio: Path | None, locale: str) -> Html:
    """The recording with a player, and each segment (and word) as a button that plays from its time."""
    if not segments:
        return Html("")
    player = None
    if audio is not None:
        source = f"gradio_api/file={quote(str(audio))}"
        player = tag("audio", controls=True, preload="metadata", src=source, class_="segment-player")
    hint = tag("p", tr("Click on a time or a word to hear it.", locale), class_="subdued")
    items = [
        tag("li", _time_button(segment), tag("span", _said(segment), class_="said")) for segment in segments
    ]
    return tag("div", player, hint, tag("ol", items, class_="segments"), class_="segment-list")


def _time_button(segment: Segment) -> Html:
    start, end = (
        format_clock(seconds, always_hours=False)[:-2]
        for seconds in (segment.start_seconds, segment.end_seconds)
    )
    return tag(
        "button",
        f"{start} – {end}",
        type="button",
        class_="time",
        data_seek=f"{segment.start_seconds:.3f}",
        data_until=f"{segment.end_seconds:.3f}",
    )


def _said(segment: Segment) -> Child:
    """The text, its words as buttons if they have times; what stands between words is kept as it is."""
    pieces: list[Child] = []
    end = 0
    for word in segment.words:
        start = segment.text.find(word.text.strip(), end)
        pieces += [segment.text[end:start] if start >= 0 else " ", _word_button(word)]
        end = start + len(word.text.strip()) if start >= 0 else end
    return [*pieces, segment.text[end:]] if pieces else segment.text


def _word_button(word: Word) -> Html:
    sure = f" · {format_percent(word.probability)}" if word.probability is not None else ""
    return tag(
        "button",
        word.text.strip(),
        type="button",
        class_="word",
        data_seek=f"{word.start_seconds:.3f}",
        data_until=f"{word.end_seconds:.3f}",
        title=f"{word.start_seconds:.2f} – {word.end_seconds:.2f} s{sure}",
    )


def download_links(files: Mapping[str, str], stem: str, locale: str) -> Html:
    """One link a format (ending → content). The content is in the link: nothing is kept on the server."""
    links = [
        tag(
            "a",
            ending.upper(),
            href=f"data:text/plain;charset=utf-8;base64,{base64.b64encode(content.encode()).decode()}",
            download=f"{stem}.{ending}",
            class_="studio-download",
        )
        for ending, content in files.items()
    ]
    return tag("div", tag("span", tr("Download:", locale), class_="subdued"), links, class_="downloads")


# ---------------------------------------------------------------------- evaluation


def rates_table(models: Sequence[Mapping[str, Any]], locale: str) -> Html:
    """A row a model; the lowest word error rate is set in bold."""
    headers = [
        tr(text, locale)
        for text in (
            N_("Model"),
            N_("WER (words)"),
            N_("CER (characters)"),
            N_("Mixed errors"),
            N_("Real-time factor"),
            N_("Clips"),
        )
    ]
    best = min((row["wer"] for row in models), default=None)
    rows: list[list[Child]] = [
        [
            str(row["id"]),
            tag("b" if row["wer"] == best else "span", format_percent(row["wer"])),
            format_percent(row["cer"]),
            format_percent(row["mer"]),
            f"{row['real_time_factor']:.3f}",
            str(row["n"]),
        ]
        for row in models
    ]
    return table(headers, rows, numeric=[1, 2, 3, 4, 5])


def comparison_sentences(comparisons: Sequence[Mapping[str, Any]], locale: str) -> Html:
    """What the difference between two models is worth, one sentence a pair and metric."""
    return tag("ul", [tag("li", _comparison(row, locale)) for row in comparisons], class_="comparisons")


def _comparison(row: Mapping[str, Any], locale: str) -> str:
    # The difference is b minus a: below zero, b makes fewer errors.
    better, worse = (row["b"], row["a"]) if row["difference"] < 0 else (row["a"], row["b"])
    low, high = row["ci_low"], row["ci_high"]
    if row["significant"]:
        low, high = sorted((abs(low), abs(high)))
    values = {
        "metric": str(row["metric"]).upper(),
        "better": better,
        "worse": worse,
        "points": f"{100 * abs(row['difference']):.1f}",
        "low": f"{100 * low:.1f}",
        "high": f"{100 * high:.1f}",
    }
    if row["significant"]:
        text = N_(
            "{metric}: {better} makes {points} points fewer errors than {worse} (95 % interval {low} to "
            "{high}): a real difference."
        )
    else:
        text = N_(
            "{metric}: {better} and {worse} differ by {points} points (95 % interval {low} to {high}): this "
            "may be chance."
        )
    return tr(text, locale, **values)


def utterance_table(utterances: Sequence[Mapping[str, Any]], locale: str, limit: int = 200) -> Html:
    """What was said and what each model wrote, differences marked; at most `limit` rows."""
    headers = [
        tr(text, locale)
        for text in (N_("Model"), N_("Audio"), N_("What was said"), N_("What the model wrote"))
    ]
    rows: list[list[Child]] = [
        [
            str(row["model"]),
            Path(str(row["audio_path"])).name,
            str(row["reference"]),
            difference(str(row["reference"]), str(row["hypothesis"])),
        ]
        for row in utterances[:limit]
    ]
    legend = tag(
        "p",
        tag("del", tr("left out", locale)),
        " ",
        tag("ins", tr("put in", locale)),
        " ",
        tag("mark", tr("written instead", locale)),
        class_="diff-legend",
    )
    return tag("div", legend, table(headers, rows, class_="utterances"))


def difference(reference: str, hypothesis: str) -> Html:
    """The hypothesis with what was left out, put in or written instead marked."""
    return tag("span", [[_piece(piece), " "] for piece in align(reference, hypothesis)], class_="diff")


def _piece(piece: AlignedPiece) -> Child:
    if piece.kind == "equal":
        return piece.hypothesis
    if piece.kind == "delete":
        return tag("del", piece.reference)
    if piece.kind == "insert":
        return tag("ins", piece.hypothesis)
    return tag("mark", piece.hypothesis, title=piece.reference)
