"""A transcript as OpenAI's endpoint writes it: JSON, text, captions, and events while it grows."""

import json
import math
from collections.abc import Collection, Iterator
from typing import Any

from starlette.responses import JSONResponse, PlainTextResponse, Response

from studio.registry.languages import LANGUAGES
from studio.transcription import captions
from studio.transcription.engine import Progress, Segment, TranscribeOptions, Transcript
from studio.transcription.languages import join_texts
from studio.transcription.loops import compression_ratio

FORMATS = ("json", "text", "srt", "verbose_json", "vtt")
GRANULARITIES = ("word", "segment")
EVENTS_OF = ("json", "text", "verbose_json")
"""Formats that may be asked for beside `stream`, whose events are the same for all of them."""
_CAPTIONS = {"srt": "application/x-subrip", "vtt": "text/vtt"}


def answer(
    heard: Transcript, options: TranscribeOptions, response_format: str, granularities: Collection[str]
) -> Response:
    """The transcript in one of `FORMATS`; `granularities` are those of `verbose_json`."""
    if response_format in _CAPTIONS:
        text = captions.render(heard, response_format)
        return PlainTextResponse(text, media_type=_CAPTIONS[response_format])
    if response_format == "text":
        return PlainTextResponse(f"{heard.text}\n")
    usage = {"type": "duration", "seconds": math.ceil(heard.duration_seconds)}
    if response_format == "json":
        return JSONResponse({"text": heard.text, "usage": usage})
    language = options.written_in(heard.language)
    told: dict[str, Any] = {
        "task": options.task,
        "language": LANGUAGES.get(language, language),
        "duration": heard.duration_seconds,
        "text": heard.text,
    }
    if "segment" in granularities:
        told["segments"] = [_segment(*pair, options) for pair in enumerate(heard.segments)]
    if "word" in granularities:
        told["words"] = [
            {"word": word.text, "start": word.start_seconds, "end": word.end_seconds}
            for segment in heard.segments
            for word in segment.words
        ]
    return JSONResponse({**told, "usage": usage})


def _segment(number: int, segment: Segment, options: TranscribeOptions) -> dict[str, Any]:
    """Clients want each of these fields. What is not kept of a segment stands for nothing: `seek`, `tokens`,
    `no_speech_prob`, and the `temperature` is the one that was asked for; `avg_logprob` is that of words.
    """
    sure = [math.log(max(word.probability, 1e-10)) for word in segment.words if word.probability is not None]
    return {
        "id": number,
        "seek": 0,
        "start": segment.start_seconds,
        "end": segment.end_seconds,
        "text": segment.text,
        "tokens": [],
        "temperature": options.temperature[0],
        "avg_logprob": sum(sure) / len(sure) if sure else 0.0,
        "compression_ratio": compression_ratio(segment.text),
        "no_speech_prob": 0.0,
    }


class Growing:
    """A transcript that is told while it grows: each segment once, as soon as nothing can come before it."""

    def __init__(self, options: TranscribeOptions) -> None:
        self._options = options
        self._count = 1
        self._length = 0

    def events(self, heard: Progress | Transcript) -> Iterator[bytes]:
        """The events of what is new, and of the end."""
        language = self._options.written_in(heard.language)
        settled = math.inf if isinstance(heard, Transcript) else heard.settled_seconds
        texts = [segment.text for segment in heard.segments if segment.start_seconds < settled]
        for count in range(self._count, len(texts) + 1):  # the last one again: it may have grown
            longer = join_texts(texts[:count], language)
            if new := longer[self._length :]:
                yield event({"type": "transcript.text.delta", "delta": new})
            self._count, self._length = count, max(self._length, len(longer))
        if isinstance(heard, Transcript):
            yield event({"type": "transcript.text.done", "text": heard.text})


def event(value: object) -> bytes:
    """One server-sent event."""
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()
