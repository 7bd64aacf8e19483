"""The one JSON of GigaSpeech or WenetSpeech is read beside its recordings."""

import json
from pathlib import Path
from typing import Any

import pytest

from studio.errors import ManifestError
from tests.reading import read_manifest

from .conftest import Sound, reasons


def segment(
    start: float | None, end: float, text: str, *subsets: str, name: str = "text_tn"
) -> dict[str, Any]:
    """As GigaSpeech has it, or WenetSpeech (`text`)."""
    times = {"begin_time": start, "end_time": end}
    return {"sid": f"S{start}", "speaker": "N/A", **times, name: text, "subsets": list(subsets)}


def write(path: Path, *segments: Any, language: str = "EN", indent: int | None = 2) -> Path:
    """A corpus of a single recording."""
    audio = {"title": "x", "path": "audio/podcast/POD1.wav", "aid": "POD1", "subsets": ["{XL}"]}
    corpus = {"dataset": "GigaSpeech", "description": 'of [10] "hours"', "language": language, "version": 1.0}
    audios = [{**audio, "segments": list(segments)}]
    path.write_text(json.dumps({**corpus, "audios": audios, "more": {}}, indent=indent), encoding="utf-8")
    return path


@pytest.mark.parametrize("indent", [None, 4])
def test_a_segment_is_a_clip_with_its_punctuation(tmp_path: Path, sound: Sound, indent: int | None) -> None:
    sound("audio/podcast/POD1.wav", 20.0)
    segments = [
        segment(1.0, 4.0, "FOUR O'CLOCK <COMMA> SAID WILLIAMS <PERIOD>", "{XL}", "{L}"),
        segment(5.0, 6.0, "<SIL>", "{XL}"),
        segment(None, 9.0, "WHEN <QUESTIONMARK>", "{XL}"),
        segment(10.0, 12.0, "NO <EXCLAMATIONPOINT>", "{XL}"),
    ]
    path = write(tmp_path / "GigaSpeech.json", *segments, indent=indent)
    for source in (path, tmp_path):
        manifest = read_manifest(source)
        found = [(one.text, one.start_seconds, one.end_seconds) for one in manifest.examples]
        assert found == [("FOUR O'CLOCK, SAID WILLIAMS.", 1.0, 4.0), ("NO!", 10.0, 12.0)]
        assert {(one.language, one.speaker) for one in manifest.examples} == {("en", None)}
        assert reasons(manifest) == [
            (1, "The text is <SIL>: nobody speaks there."),
            (1, "start_time is '?', where a number of seconds is needed."),
        ]


def test_the_parts_for_tests_and_those_of_doubtful_texts_are_not_trained_on(
    tmp_path: Path, sound: Sound
) -> None:
    sound("audio/podcast/POD1.wav", 20.0)
    texts = {
        "\u597d": ["L", "S"],
        "\u5427": ["L"],
        "\u5417": ["DEV"],
        "\u5462": ["TEST_NET"],
        "\u554a": ["W"],
    }
    segments = [
        segment(number, number + 1, text, *subsets, name="text")
        for number, (text, subsets) in enumerate(texts.items())
    ]
    write(tmp_path / "WenetSpeech.json", *segments, language="ZH")

    def read(source: object, split: str = "train") -> str:
        manifest = read_manifest(str(source), split=split)
        assert not manifest.problems and {one.language for one in manifest.examples} == {"zh"}
        return "".join(one.text for one in manifest.examples)

    assert read(tmp_path) == read(tmp_path / "WenetSpeech.json") == "\u597d\u5427"
    assert (read(tmp_path, "test"), read(f"{tmp_path}::dev")) == ("\u5462", "\u5417")
    assert (read(f"{tmp_path}::S"), read(f"{tmp_path}::TEST_NET+w")) == ("\u597d", "\u5462\u554a")
    with pytest.raises(ManifestError, match="has no rows"):
        read(f"{tmp_path}::XL")


def test_a_corpus_is_read_a_recording_at_a_time(tmp_path: Path, sound: Sound) -> None:
    sound("audio/podcast/POD1.wav", 20.0)
    path = write(tmp_path / "corpus.json", segment(1.0, 4.0, "ONE", "{XL}"), indent=None)
    path.write_text(path.read_text().replace('], "more"', ', {"broken"], "more"'))
    with pytest.raises(ManifestError, match=r"is not valid JSON \(line 1\)"):
        read_manifest(path)
    assert [one.text for one in read_manifest(path, max_rows=1).examples] == ["ONE"]
