"""Transcripts as the visitor sees them: pure functions from results to HTML."""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from studio.reports.language_names import language_name
from studio.reports.markup import Child, Html, tag
from studio.reports.pieces import button, facts
from studio.transcription.engine import Segment, Transcript, Word
from studio.translation import N_, said, tr
from studio.ui.shared.views import known_name
from studio.units import duration_message, format_clock, format_percent

SURENESS = (0.9, 0.7, 0.4)
"""At least so likely: sure, fairly sure, unsure; below: very unsure."""
_SURENESS_NAMES = (N_("sure"), N_("fairly sure"), N_("unsure"), N_("very unsure"))
_LEAST_TOLD = 0.01
_WAVE_HEIGHT = 100
_LOOK = "studio-button"


def transcript_facts(transcript: Transcript, locale: str) -> Html:
    """Language, length and speed of one transcription."""
    return facts(
        [
            (tr("Language", locale), _languages_weighed(transcript, locale)),
            (tr("Length", locale), said(duration_message(transcript.duration_seconds), locale)),
            (tr("Processing time", locale), said(duration_message(transcript.processing_seconds), locale)),
            (tr("Real-time factor", locale), f"{transcript.real_time_factor:.2f}"),
            (tr("Model", locale), _short_name(transcript.model, locale)),
        ]
    )


def _short_name(model: str, locale: str) -> str:
    """What the model is called: one that is only known by its folder, like the folder."""
    name = known_name(model, locale)
    return Path(name).name if Path(name).is_absolute() else name


def _languages_weighed(transcript: Transcript, locale: str) -> str:
    """The language; if the model found it out, how likely it and its nearest rivals are."""
    weighed = transcript.language_probabilities.items()
    likely = [(code, share) for code, share in weighed if share >= _LEAST_TOLD]
    shown = [f"{language_name(code, locale)} {format_percent(share)}" for code, share in likely[:3]]
    return tr(N_(", "), locale).join(shown) or language_name(transcript.language, locale)


def segment_list(
    segments: Sequence[Segment],
    audio: Path | None,
    locale: str,
    *,
    peaks: Sequence[float] = (),
    duration_seconds: float = 0.0,
    mark: str | None = None,
) -> Html:
    """The recording's player, and each segment (and word) as a button that plays from its time.

    The Tab key stops at the first button; arrow keys lead to the others (`arrow_keys.js`). With `audio`, each
    segment also has a field to correct it in; with `peaks` (0 to 1), the recording of `duration_seconds` is
    drawn with its segments above them. With another `mark`, what was being corrected is another transcript.
    """
    if not segments:
        return Html("")
    top: list[Child] = []
    if audio is not None:
        if len(peaks):
            top.append(waveform(peaks, segments, duration_seconds, locale))
        player = _player(duration_seconds or segments[-1].end_seconds, locale)
        bar = [*player, _copy_button(locale), _correct_button(locale)]
        top.append(tag("audio", preload="metadata", src=f"gradio_api/file={quote(str(audio))}"))
        top.append(tag("div", bar, class_="segment-bar"))
    words = [word for segment in segments for word in segment.words]
    hint = N_("Click on a time or a word to hear it.") if words else N_("Click on a time to hear it.")
    items = [
        tag(
            "li",
            _time_button(segment, tabindex=0 if number == 0 else -1),
            tag("span", _said(segment), class_="said", dir="auto", lang=segment.language or None),
            _correction(segment, locale) if audio else None,
        )
        for number, segment in enumerate(segments)
    ]
    return tag(
        "div",
        top,
        tag("p", tr(hint, locale), class_="subdued"),
        _legend(words, locale),
        tag("ol", items, class_="segments"),
        class_="segment-list",
        data_mark=mark,
    )


def waveform(
    peaks: Sequence[float], segments: Sequence[Segment], duration_seconds: float, locale: str
) -> Html:
    """Loudness from left to right, and over it a button a segment that plays it."""
    middle = _WAVE_HEIGHT / 2
    path = "".join(
        f"M{x} {middle - middle * peak:.1f}V{middle + middle * peak:.1f}"
        for x, peak in enumerate(max(0.01, float(peak)) for peak in peaks)
    )
    # The markup of an SVG keeps its own spelling of attributes, so it is written out: only numbers are in it.
    picture = Html(
        f'<svg viewBox="-0.5 0 {len(peaks)} {_WAVE_HEIGHT}" preserveAspectRatio="none" aria-hidden="true">'
        f'<path d="{path}"/></svg>'
    )
    length = max(duration_seconds, 1e-3)
    marks = [
        _mark(segment, length, tabindex=0 if number == 0 else -1) for number, segment in enumerate(segments)
    ]
    label = tr("The recording: click to hear it from there.", locale)
    return tag(
        "div", picture, marks, tag("i", class_="needle"), class_="wave", role="group", aria_label=label
    )


def _mark(segment: Segment, length: float, *, tabindex: int) -> Html:
    left = 100 * segment.start_seconds / length
    width = 100 * (segment.end_seconds - segment.start_seconds) / length
    style, text = f"left:{left:.3f}%;width:{width:.3f}%", segment.text
    return _playing(
        segment, None, class_="wave-segment", tabindex=tabindex, style=style, title=text, aria_label=text
    )


def _playing(said: Segment | Word, text: Child, **more: Any) -> Html:
    """A button that plays what was said."""
    times = {"data_seek": f"{said.start_seconds:.3f}", "data_until": f"{said.end_seconds:.3f}"}
    return button(text, **more, **times)


def _player(seconds: float, locale: str) -> list[Html]:
    """Play or pause, how fast, and where one is."""
    play, pause = tr("Play", locale), tr("Pause", locale)
    return [
        button(play, _LOOK, data_play=play, data_pause=pause),
        button("1×", _LOOK, data_speed=True, title=tr("Playback speed", locale)),
        tag("span", f"00:00 / {format_clock(seconds, always_hours=False)[:-4]}", class_="played"),
    ]


def _copy_button(locale: str) -> Html:
    text, copied = tr("Copy the text", locale), tr("Copied", locale)
    return button(text, _LOOK, data_copies="#transcript textarea", data_copied=copied)


def _correct_button(locale: str) -> Html:
    begin, end = tr("Correct the text", locale), tr("Done correcting", locale)
    return button(begin, _LOOK, aria_pressed="false", data_correct=True, data_begin=begin, data_end=end)


def _correction(segment: Segment, locale: str) -> Html:
    label = tr("Text from {start}", locale, start=_clock(segment.start_seconds))
    text = segment.text.strip()
    return tag("textarea", text, class_="correction", rows=1, dir="auto", aria_label=label)


def _legend(words: Sequence[Word], locale: str) -> Html | None:
    """What the lines under words mean; nothing where the model gave no probabilities."""
    if all(word.probability is None for word in words):
        return None
    marks: list[Child] = [
        tag("span", tag("span", tr(name, locale), class_="sample", data_sure=level), bounds)
        for level, (name, bounds) in enumerate(zip(_SURENESS_NAMES, _bounds(), strict=True))
    ]
    return tag("p", tag("span", tr("How sure the model is:", locale)), marks, class_="sureness-legend")


def _bounds() -> list[str]:
    steps = [round(100 * share) for share in SURENESS]
    return [f" ≥ {steps[0]} %", f" ≥ {steps[1]} %", f" ≥ {steps[2]} %", f" < {steps[2]} %"]


def sureness(probability: float) -> int:
    """0 (sure) to 3 (very unsure)."""
    return sum(probability < least for least in SURENESS)


def _clock(seconds: float) -> str:
    return format_clock(seconds, always_hours=False)[:-2]


def _time_button(segment: Segment, *, tabindex: int) -> Html:
    text = f"{_clock(segment.start_seconds)} – {_clock(segment.end_seconds)}"
    return _playing(segment, text, class_="time", tabindex=tabindex)


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
    return _playing(
        word,
        word.text.strip(),
        class_="word",
        tabindex=-1,
        data_sure=sureness(word.probability) if word.probability is not None else None,
        title=f"{word.start_seconds:.2f} – {word.end_seconds:.2f} s{sure}",
    )


def download_links(files: Mapping[str, str | bytes], stem: str, locale: str) -> Html:
    """One link a format (ending → content). The content is in the link: nothing is kept on the server."""
    how: dict[str, Any] = {"class_": "studio-download"}
    links = [
        tag("a", ending.upper(), href=_data_address(content), download=f"{stem}.{ending}", **how)
        for ending, content in files.items()
    ]
    return tag("div", tag("span", tr("Download:", locale), class_="subdued"), links, class_="downloads")


def _data_address(content: str | bytes) -> str:
    if isinstance(content, str):
        return f"data:text/plain;charset=utf-8;base64,{base64.b64encode(content.encode()).decode()}"
    return f"data:application/zip;base64,{base64.b64encode(content).decode()}"
