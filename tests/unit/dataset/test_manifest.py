import gzip
import json
import math
import os
import pickle
import tracemalloc
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import soundfile

from studio.dataset.manifest import Manifest, TextSegment
from studio.errors import HubUnreachableError, ManifestError
from studio.settings import DEMO_SPEECH
from studio.translation import said
from tests.reading import read_manifest

from .conftest import sweep

Write = Callable[[str, str], Path]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two clips, of 3 and 2 seconds."""
    soundfile.write(tmp_path / "a.wav", sweep(8_000, 3.0), 8_000)
    (tmp_path / "clips").mkdir()
    soundfile.write(tmp_path / "clips" / "b.flac", sweep(16_000, 2.0), 16_000)
    return tmp_path


@pytest.fixture
def write(folder: Path) -> Write:
    def write(name: str, text: str) -> Path:
        (folder / name).write_text(text, encoding="utf-8")
        return folder / name

    return write


def lines(*rows: Any) -> str:
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)


def texts(manifest: Manifest) -> list[tuple[str, str]]:
    return [(example.audio_path.name, example.text) for example in manifest.examples]


BOTH = [("a.wav", "Hello, world"), ("b.flac", "你好")]

SAME_ROWS = {
    "json array": json.dumps(
        [{"audio_path": "./a.wav", "text": "Hello, world"}, {"audio_path": "clips/b.flac", "text": "你好"}]
    ),
    "json array over lines": json.dumps(
        [{"path": "a.wav", "sentence": "Hello, world"}, {"path": "clips/b.flac", "sentence": "你好"}],
        indent=2,
    ),
    "json object": json.dumps({"a.wav": "Hello, world", "clips/b.flac": "你好"}),
    "json object of objects": json.dumps(
        {"a.wav": {"text": "Hello, world"}, "clips/b.flac": {"sentence": "你好"}}, indent=1
    ),
    "json lines": lines(
        {"audio": {"path": "a.wav"}, "sentence": "Hello, world"},
        "",
        {"audio": "clips/b.flac", "transcript": "你好"},
    ),
    "csv": 'audio,text\na.wav,"Hello, world"\nclips/b.flac,你好\n',
    "csv for Excel": "sep=;\r\nfile_name;transcription\r\na.wav;Hello, world\r\nclips/b.flac;你好\r\n",
    "csv with semicolons": "file_name;transcription\na.wav;Hello, world\nclips/b.flac;你好\n",
    "csv of windows": 'Audio_Filepath,Text\r\na.wav,"Hello, world"\r\nclips/b.flac,你好\r\n',
    "tsv": "path\tsentence\na.wav\tHello, world\nclips/b.flac\t你好\n",
    "tsv of pandas": "\tpath\tsentence\n0\ta.wav\tHello, world\n1\tclips/b.flac\t你好\n",
    "csv of an old spreadsheet": '\r\r,audio,text\r0,a.wav,"Hello, world"\r1,clips/b.flac,你好\r',
    "tsv of an old spreadsheet": "\r\rpath\tsentence\ra.wav\tHello, world\r\rclips/b.flac\t你好\r",
    "tsv with quotes": 'path\tsentence\na.wav\t"Hello, world"\nclips/b.flac\t"你好"\n',
}


@pytest.mark.parametrize("ending", [".txt", ".json"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("kind", SAME_ROWS)
def test_each_format_is_known_by_its_content(write: Write, kind: str, mark: str, ending: str) -> None:
    manifest = read_manifest(write(f"list{ending}", mark + SAME_ROWS[kind]))
    assert texts(manifest) == BOTH
    assert manifest.problems == ()
    assert manifest.format == ("jsonl" if kind == "json lines" else kind.split()[0])


def test_the_hash_is_of_the_rows_and_not_of_the_format(write: Write) -> None:
    hashes = {read_manifest(write("list", text)).hash for text in SAME_ROWS.values()}
    assert len(hashes) == 1
    other = SAME_ROWS["csv"].replace("Hello", "Hallo")
    assert read_manifest(write("list", other)).hash not in hashes


def test_all_that_a_row_can_say_is_read(write: Write) -> None:
    row = {
        "audio": {"path": "a.wav", "start_time": 0.5, "end_time": 2.5},
        "sentence": "hi there",
        "language": "en",
        "task": "translate",
        "sentences": [{"start": 0, "end": 0.8, "text": "hi"}, {"start": 0.9, "end": 2, "text": " there "}],
        "duration": 2.0,
    }
    example = read_manifest(write("list", lines(row))).examples[0]
    assert (example.start_seconds, example.end_seconds, example.duration_seconds) == (0.5, 2.5, 2.0)
    assert (example.text, example.language, example.task, example.line) == ("hi there", "en", "translate", 1)
    assert example.segments == (TextSegment(0.0, 0.8, "hi"), TextSegment(0.9, 2.0, "there"))


def test_language_may_be_called_lang_and_text_may_be_in_the_sentences_only(write: Write) -> None:
    row = {"audio": "a.wav", "lang": "zh", "sentences": [{"start": 0, "end": 1, "text": "你好"}]}
    example = read_manifest(write("list", lines(row))).examples[0]
    assert (example.language, example.text) == ("zh", "你好")


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (["今天。", "天气"], "今天。天气"),
        (["我用", "Windows", "Linux"], "我用 Windows Linux"),
        (["你好我们都用", "Wi", "Fi"], "你好我们都用Wi Fi"),
        (["วันนี้", "อากาศดี"], "วันนี้อากาศดี"),
        (["안녕", "여러분"], "안녕 여러분"),
        (["one", "two"], "one two"),
    ],
)
@pytest.mark.parametrize("language", ["zh", None])
def test_sentences_are_joined_as_their_script_is_written(
    write: Write, parts: list[str], text: str, language: str | None
) -> None:
    sentences = [{"start": n, "end": n + 1, "text": part} for n, part in enumerate(parts)]
    row = {"audio": "a.wav", "language": language, "sentences": sentences}
    assert read_manifest(write("list", lines(row))).examples[0].text == text


def test_words_with_their_times_beside_sentences_are_no_text(write: Write) -> None:
    sentences = [{"start": 0, "end": 1, "text": "good morning"}]
    row = {"audio": "a.wav", "sentences": sentences, "words": [{"word": "good", "start": 0, "end": 0.4}]}
    assert read_manifest(write("list", lines(row))).examples[0].text == "good morning"


def test_offset_and_duration_cut_a_clip_out(write: Write) -> None:
    row = {"audio_filepath": "a.wav", "offset": 1.0, "duration": 1.5, "text": "x"}
    example = read_manifest(write("list", lines(row))).examples[0]
    assert (example.start_seconds, example.end_seconds, example.duration_seconds) == (1.0, 2.5, 1.5)


def test_a_list_of_nemo_that_says_in_which_language_the_text_is_may_be_one_of_translations(
    write: Write,
) -> None:
    pairs = (("de", "de"), ("de-DE", "DE"), ("de", "en-US"), ("en", "fr"), ("deu", "eng"))
    rows = [{"audio_filepath": "a.wav", "text": "x", "source_lang": a, "target_lang": b} for a, b in pairs]
    found = read_manifest(write("list", lines(*rows)))
    assert [(one.language, one.task) for one in found.examples] == [
        ("de", None),
        ("de-DE", None),
        ("de", "translate"),
        ("deu", "translate"),
    ]
    (refused,) = found.problems
    assert refused.line == 4 and "speech is in en and the text in fr" in str(refused.reason)


@pytest.mark.parametrize("start", ["begin_time", "start_time", "start"])
def test_times_are_places_in_a_meeting_where_the_file_is_the_clip_already(write: Write, start: str) -> None:
    times = ((1.0, 2.5), (400.0, 403.0), (0.3, 3.3), (0.0, 3.0))
    rows = [{"audio": "a.wav", "text": "x", start: begin, "end_time": end} for begin, end in times]
    found = read_manifest(write("list", lines(*rows))).examples
    assert [(one.start_seconds, one.end_seconds, one.duration_seconds) for one in found] == [
        (1.0, 2.5, 1.5),
        (None, None, 3.0),
        (None, None, 3.0),
        (0.0, 3.0, 3.0),
    ]


def test_what_stands_behind_the_end_is_said_in_the_visitors_language(write: Write) -> None:
    with pytest.raises(ManifestError) as refused:
        read_manifest(write("list", '[{"audio": "a.wav", "text": "x"}]\n[]'))
    assert "第 1 行：结尾之后还有多余的内容" in said(refused.value, "zh-CN")


def test_a_missing_duration_is_measured(write: Write) -> None:
    rows = [{"audio": "a.wav", "text": "x"}, {"audio": {"path": "a.wav", "start_time": 1}, "text": "x"}]
    manifest = read_manifest(write("list", lines(*rows)))
    assert [example.duration_seconds for example in manifest.examples] == pytest.approx([3.0, 2.0])


def test_a_file_is_not_opened_when_its_duration_is_given(write: Write, folder: Path) -> None:
    (folder / "a.wav").write_text("no sound at all")
    row = {"audio": "a.wav", "text": "x", "duration": 3.0}
    assert read_manifest(write("list", lines(row))).examples[0].duration_seconds == 3.0


def test_paths_are_looked_for_beside_the_manifest_and_then_in_the_working_directory(
    write: Write, folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for name in ("a.wav", "c.wav"):
        soundfile.write(elsewhere / name, sweep(8_000, 1.0), 8_000)
    monkeypatch.chdir(elsewhere)
    absolute = str(folder / "clips" / "b.flac")
    rows = ({"audio": audio, "text": "x"} for audio in ("a.wav", "c.wav", absolute))
    found = [str(example.audio_path) for example in read_manifest(write("list", lines(*rows))).examples]
    assert found == [str(folder / "a.wav"), str(elsewhere / "c.wav"), absolute]


BAD_ROWS = [
    ("not json", "not valid JSON (at character 1)"),
    ("[1, 2]", "an object with audio and text is needed"),
    ({"audio": "gone.wav", "text": "x"}, "There is no audio file gone.wav"),
    ({"audio": "clips", "text": "x"}, "is a folder"),
    ({"audio": "empty.wav", "text": "x"}, "is empty"),
    ({"audio": "text.wav", "text": "x"}, "not a sound file"),
    ({"audio": "", "text": "x"}, "names no audio"),
    ({"audio": "a.wav", "text": "  "}, "has no text"),
    ({"audio": "a.wav", "text": ["x"]}, "which is no text"),
    ({"audio": "a.wav"}, "no column for the text"),
    ({"audio": "a.wav", "text": "x", "duration": "long"}, "a number of seconds"),
    ({"audio": "a.wav", "text": "x", "duration": 0}, "there is no sound"),
    ({"audio": {"path": "a.wav", "start_time": 2, "end_time": 1}, "text": "x"}, "before it starts"),
    ({"audio": {"path": "a.wav", "start_time": -1}, "text": "x"}, "a number of seconds"),
    ({"audio": {"path": "a.wav", "start_time": 9}, "text": "x"}, "starts at 9 s, and the file is 3.00 s"),
    (
        {"audio": "a.wav", "text": "x", "begin_time": 2, "end_time": 9},
        "to 9 s, and the file is 3.00 s",
    ),
    ({"audio": "a.wav", "text": "x", "task": "sing"}, "transcribe and translate"),
    ({"audio": "a.wav", "text": "x", "sentences": "x"}, "no list"),
    ({"audio": "a.wav", "text": "x", "sentences": [{"start": 1, "end": 0, "text": "x"}]}, "runs from 1 to 0"),
    ({"audio": "a.wav", "text": "x", "sentences": [{"start": 1, "end": 9, "text": "x"}]}, "a clip of 3.00 s"),
    ({"audio": "a.wav", "text": "x", "sentences": [{"text": "x"}]}, "from ? to ?"),
    ({"audio": "a.wav", "text": "x", "langauge": "en"}, "misspelt 'language'"),
    ({"audio": "a.wav", "text": "x", "languge": "en"}, "misspelt 'language'"),
    ({"audio": "a" * 300 + ".wav", "text": "x"}, "There is no audio file"),
    ({"audio": "a\0.wav", "text": "x"}, "There is no audio file"),
    ({"audio": "~nobody/a.wav", "text": "x"}, "There is no audio file"),
    ('{"audio": "a.wav", "text": "\\ud800"}', "half of a character"),
    ('{"audio": "\\ud800.wav", "text": "x"}', "half of a character"),
    *(
        (f'{{"audio": "a.wav", "text": "x", {more}}}', "half of a character")
        for more in (
            '"sentences": [{"start": 0, "end": 1, "text": "\\ud800"}]',
            *(f'"{name}": "\\ud800"' for name in ("previous_text", "speaker", "language")),
        )
    ),
    ('{"audio": "a.wav", "text": "x", "duration": ' + "9" * 400 + "}", "a number of seconds is needed"),
    ('{"audio": "a.wav", "text": "x", "more": ' + "[" * 20_000 + "]" * 20_000 + "}", "not valid JSON"),
]


def test_a_row_without_speech_is_a_clip_that_says_nothing(write: Write) -> None:
    rows = [
        {"audio": {"path": "a.wav"}, "sentence": "", "sentences": [], "duration": 3.0},
        {"audio": "a.wav", "sentence": "<|nospeech|>"},
        {"audio": "a.wav", "sentence": "", "sentences": None},
        {"audio": "a.wav", "sentences": []},
    ]
    manifest = read_manifest(write("list", lines(*rows)))
    assert [(example.line, example.text, example.segments) for example in manifest.examples] == [
        (1, "", ()), (2, "", ())
    ]  # fmt: skip
    assert [str(problem.reason) for problem in manifest.problems] == ["The row has no text."] * 2


def test_bad_rows_are_named_by_line_and_good_ones_go_on(write: Write, folder: Path) -> None:
    (folder / "empty.wav").touch()
    (folder / "text.wav").write_text("not sound at all\n" * 20)
    good = {"audio": "a.wav", "text": "x"}
    manifest = read_manifest(write("list", lines(good, *(row for row, _ in BAD_ROWS), good)))
    assert [example.line for example in manifest.examples] == [1, len(BAD_ROWS) + 2]
    assert [problem.line for problem in manifest.problems] == list(range(2, len(BAD_ROWS) + 2))
    for problem, (_, reason) in zip(manifest.problems, BAD_ROWS, strict=True):
        assert reason in str(problem.reason)
    assert manifest.problems[2].audio_path == "gone.wav"


def test_bad_values_of_an_object_are_named_and_good_ones_go_on(write: Write) -> None:
    values = {"a.wav": "one", "gone.wav": "two", "clips/b.flac": ["x"], "./a.wav": {"txt": 4, "lang": "en"}}
    manifest = read_manifest(write("list", json.dumps(values | {"A.WAV\0": "three", "..": None})))
    assert [(one.line, one.text, one.language) for one in manifest.examples] == [
        (1, "one", None),
        (4, "4", "en"),
    ]
    assert [one.line for one in manifest.problems] == [2, 3, 5, 6]
    assert str(manifest.problems[1].reason) == "The text is ['x'], which is no text."


def test_an_object_of_any_size_is_read_a_value_at_a_time(folder: Path) -> None:
    with (folder / "list.json").open("w", encoding="utf-8") as file:
        file.write('{"a.wav": "one"')
        for number in range(70):
            file.write(f', "a.wav": "{"x" * 2**20} {number}"')
        file.write("}")
    tracemalloc.start()
    manifest = read_manifest(folder / "list.json", max_rows=3)
    most_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(manifest.examples) == 3 and most_bytes < 40 * 2**20


def test_bad_lines_of_a_table_are_named(write: Write) -> None:
    text = 'audio,text\na.wav,"over\ntwo lines"\na.wav,one,two\n\na.wav,\na.wav,fine\na.wav,"open\n'
    manifest = read_manifest(write("list.csv", text))
    found = [(example.line, example.text) for example in manifest.examples]
    assert found == [(2, "over\ntwo lines"), (7, "fine")]
    assert [problem.line for problem in manifest.problems] == [4, 6, 8]
    assert "quotation marks" in str(manifest.problems[2].reason)


def test_a_quotation_mark_that_nobody_closes_takes_no_other_row_of_a_csv_with_it(write: Write) -> None:
    rows = [f"a.wav,row {number}" for number in range(1000)]
    rows[2], rows[500], rows[998] = 'a.wav,"open', 'a.wav,"closed"', 'a.wav,"open'
    manifest = read_manifest(write("list.csv", "\n".join(["audio,text", *rows])))
    assert [problem.line for problem in manifest.problems] == [4, 1000]
    assert len(manifest.examples) == 998
    assert (manifest.examples[-1].line, manifest.examples[-1].text) == (1001, "row 999")


def test_a_lone_quotation_mark_in_a_tsv_is_a_character(write: Write) -> None:
    manifest = read_manifest(write("x.tsv", 'path\tsentence\na.wav\t"Go!" he said\na.wav\t5" disk\n'))
    assert [example.text for example in manifest.examples] == ['"Go!" he said', '5" disk']


def test_a_field_of_a_tsv_that_goes_over_lines_is_one_text(write: Write) -> None:
    rows = [
        'a.wav\t"one\ntwo ""and"" \n\nthree"',
        'a.wav\t"Go',
        'a.wav\t"Go',
        "a.wav\tfine",
        'a.wav\t"open\nand never closed',
        'a.wav\t"open\na.wav\tclosed"',
    ]
    manifest = read_manifest(write("x.tsv", "\n".join(["path\tsentence", *rows])))
    found = [(example.line, example.text) for example in manifest.examples]
    first = (2, 'one\ntwo "and" \n\nthree')
    assert found == [first, (6, '"Go'), (7, '"Go'), (8, "fine"), (9, '"open'), (11, '"open'), (12, 'closed"')]
    assert [problem.line for problem in manifest.problems] == [10]
    text = 'path\tsentence\tspeaker\na.wav\t"one\r\ntwo"\t"an\r\nna"\r\na.wav\tthree\tben\r\n'
    both = read_manifest(write("y.tsv", text)).examples
    assert [(row.line, row.text, row.speaker) for row in both] == [
        (2, "one\ntwo", "an\nna"),
        (5, "three", "ben"),
    ]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_sounds_and_texts_need_no_header(folder: Path, separator: str) -> None:
    """Lines are counted from the first, which is a clip; a column that is named has to be there."""
    lines = [("a.wav", "hello"), ("clips/b.flac", "there"), ("gone.wav", "nothing")]
    text = "\n" + "".join(separator.join(line) + "\n" for line in lines)
    (folder / "list.txt").write_text(text, encoding="utf-8")
    read = read_manifest(folder / "list.txt")
    found = [(each.audio_path.name, each.text, each.line) for each in read.examples]
    assert found == [("a.wav", "hello", 2), ("b.flac", "there", 3)]
    assert [problem.line for problem in read.problems] == [4]
    with pytest.raises(ManifestError):
        read_manifest(folder / "list.txt", text_column="sentence")


@pytest.mark.parametrize("name", ["filename", "file", "audio_file", "wav_filename"])
def test_a_column_of_files_may_be_called_as_other_programs_do(folder: Path, name: str) -> None:
    (folder / "list.csv").write_text(f"{name},transcript\na.wav,hello\n", encoding="utf-8")
    assert [each.text for each in read_manifest(folder / "list.csv").examples] == ["hello"]


@pytest.mark.parametrize(
    "listed",
    [
        pytest.param(b'{"key": "a", "wav": "a.wav", "txt": "hello"}\n', id="WeNet"),
        pytest.param(b'{"key": "a", "source": "a.wav", "source_len": 9, "target": "hello"}\n', id="FunASR"),
        pytest.param(b"ID,duration,wav,spk_id,wrd\n1,1.0,$data_root/a.wav,s1,hello\n", id="SpeechBrain"),
        pytest.param("audio\ttext\r\na.wav\thello\r\n".encode("utf-16"), id="Excel's Unicode text"),
    ],
)
def test_lists_of_other_programs_are_read(folder: Path, listed: bytes) -> None:
    (folder / "list").write_bytes(listed)
    assert [each.text for each in read_manifest(folder / "list").examples] == ["hello"]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("sound", "text"), [("wav", "words"), ("file_path", "transcription"), ("path", "wrd")]
)
def test_speechbrain_has_the_ids_of_clips_for_keys(
    folder: Path, indent: int | None, sound: str, text: str
) -> None:
    rows = {
        "spk1-1": {sound: "{data_root}/a.wav", "length": 1.0, text: "hello", "spk_id": "spk1"},
        "spk1-2": {"length": 1.0, text: "nothing"},
        "spk1-3": {text: "there", sound: "{data_root}/b.flac"},
    }
    (folder / "train.json").write_text(json.dumps(rows, indent=indent), encoding="utf-8")
    read = read_manifest(folder / "train.json")
    assert texts(read) == [("a.wav", "hello"), ("b.flac", "there")] and read.format == "json"
    assert read.examples[0].speaker == "spk1" and [problem.line for problem in read.problems] == [2]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        ("audio,text\na.wav,h\u00e9\n".encode("latin-1"), r"not UTF-8 text \(line 2\)"),
        ("audio,text\na.wav,x\n".encode("utf-16") + b"x", "not UTF-8 text"),
        (b'{"audio": "a.wav"\x00}', "not UTF-8 text"),
        (b"[]", "has no rows"),
        (b"audio,text\n", "has no rows"),
        (b'[{"audio": "a.wav",', r"not valid JSON \(line 1"),
        (b"[" * 100_000, r"not valid JSON \(line 1\)"),
        (b'{"a.wav": "x",\n"b.wav"', r"not valid JSON \(line 2\)"),
        (b'{"a.wav": ' + b"[" * 100_000, r"not valid JSON \(line 1\)"),
        (b'{"a.wav": "x"}\n{"b.wav": "y"}', r"line 1: extra data after its end"),
        (b"PK\x03\x04\xff", "is a zip: upload it"),
        (b'{\n"rows": []\n}', "single JSON object"),
        (b'{\n"id": {"text": "x"}\n}', "single JSON object"),
        (b'{"id": {"wav": "a.wav", "words": "x"}}\n{"id": 1}', "no column for the audio"),
        (b"audio,sentance\na.wav,x\n", "found 'sentance', did you mean 'sentence'"),
        (b"adio_path,text\na.wav,x\n", "found 'adio_path', did you mean 'audio_path'"),
        (b"audio,text,langauge\na.wav,x,en\n", "'langauge' looks like a misspelt 'language'"),
        (b"a.wav;hello;x\nb.wav;there;y\n", "begins with a clip, where the names of its columns are"),
        (b"a.wav 1.0 hello\nb.wav 1.0 there\n", "begins with a clip, where the names of its columns are"),
        (b"a.wav\t1.0\thello you\n", "begins with a clip, where the names of its columns are"),
        (b'{"audio": "a.wav", "texte": "x"}\n', "found 'texte', did you mean 'text'"),
        (gzip.compress(b"audio,text\n" + b"x" * 70 * 2**20, 1), r"a line of more than 64.0 MiB \(line 2\)"),
        (
            b'{"audio": "gone.wav", "text": "x"}\n',
            "has 1 row, and none can be used. Line 1: There is no audio file",
        ),
    ],
)
def test_a_manifest_that_cannot_be_used_is_refused_with_a_sentence(
    folder: Path, content: bytes, sentence: str
) -> None:
    (folder / "list").write_bytes(content)
    with pytest.raises(ManifestError, match=sentence) as refused:
        read_manifest(folder / "list")
    assert str(folder / "list") in str(refused.value)


@pytest.mark.parametrize("end", ["\u2028", "\x85"])
def test_what_ends_a_line_elsewhere_is_a_part_of_a_text(write: Write, end: str) -> None:
    row = json.dumps({"audio": "a.wav", "text": f"one{end}two"}, ensure_ascii=False)
    assert texts(read_manifest(write("list", f"\t{row}\n"))) == [("a.wav", f"one{end}two")]


def test_columns_of_other_meaning_are_left_alone(write: Write) -> None:
    row = {
        "audio": "a.wav", "text": "x", "id": 1, "text_original": "X", "speaker": "s", "duration_ms": 3000,
        "task_id": 5, "client_id": "c", "up_votes": 2, "age": 20,
    }  # fmt: skip
    assert len(read_manifest(write("list", lines(row))).examples) == 1


def test_a_word_for_nobody_is_no_speaker(write: Write) -> None:
    names = ["N/A", "None", "null", "unknown", " ", "Nan", 7]
    rows = [{"audio": "a.wav", "text": "x", "speaker": name} for name in names]
    examples = read_manifest(write("list", lines(*rows))).examples
    assert [example.speaker for example in examples] == [None] * 5 + ["Nan", "7"]


def test_what_pandas_writes_for_a_missing_value_is_none(write: Write) -> None:
    names = ("speaker", "language", "duration", "previous_text", "sentences", "start_time")
    row = {"audio": "a.wav", "text": "x", **dict.fromkeys(names, math.nan)}
    manifest = read_manifest(write("list", lines(row, {**row, "text": math.nan})))
    (example,) = manifest.examples
    assert (example.speaker, example.language, example.duration_seconds) == (None, None, 3.0)
    assert [str(problem.reason) for problem in manifest.problems] == ["The row has no text."]


def test_a_pipe_is_no_manifest_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(ManifestError, match="is not a file"):
        read_manifest(tmp_path / "pipe.jsonl")


@pytest.mark.parametrize("name", ["", " ", ",", "\n"])
def test_no_data_is_not_the_folder_that_one_is_in(name: str) -> None:
    with pytest.raises(ManifestError, match="No data is named"):
        read_manifest(name)


def test_a_comma_after_the_last_source_is_none() -> None:
    assert read_manifest("demo:test,", max_rows=2).examples == read_manifest("demo:test", max_rows=2).examples


def test_what_is_closed_to_this_user_is_refused_with_a_sentence(
    write: Write, folder: Path, close: Callable[[Path], None]
) -> None:
    close(write("closed.jsonl", SAME_ROWS["json lines"]))
    close(folder / "clips")
    for name in ("closed.jsonl", "clips", "clips/list.csv", "clips/list", "clips::test"):
        with pytest.raises(ManifestError, match=r"cannot be read: .*Permission denied"):
            read_manifest(folder / name)


def test_a_missing_manifest_is_refused(tmp_path: Path) -> None:
    for name in ("gone.jsonl", "gone.csv", "./gone", "some where"):
        with pytest.raises(ManifestError, match="There is no manifest"):
            read_manifest(tmp_path / name if name.startswith(".") else name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("metadata.csv", "file_name,text\na.wav,x\n"),
        ("metadata.csv", "file_name,transcription\na.wav,x\n"),
        ("metadata.jsonl", '{"file_name": "a.wav", "text": "x"}\n'),
        ("train.jsonl", '{"audio": "a.wav", "text": "x"}\n'),
        ("anything.tsv", "audio\ttext\na.wav\tx\n"),
    ],
)
def test_an_audio_folder_is_read_by_its_metadata(write: Write, folder: Path, name: str, text: str) -> None:
    write(name, text)
    manifest = read_manifest(folder)
    assert (manifest.format, texts(manifest)) == ("folder", [("a.wav", "x")])


def test_a_split_of_a_folder_is_the_file_of_that_name(write: Write, folder: Path) -> None:
    write("train.csv", "audio,text\na.wav,train\n")
    write("test.csv", "audio,text\na.wav,test\n")
    assert read_manifest(folder, split="test").examples[0].text == "test"
    with pytest.raises(ManifestError, match=r"several manifests \(test\.csv, train\.csv\)"):
        read_manifest(folder, split="dev")


def test_splits_of_a_folder_can_be_named_and_joined(write: Write, folder: Path) -> None:
    for name in ("train", "test"):
        write(f"{name}.csv", f"audio,text\na.wav,{name}\ngone.wav,x\n")
    (folder / "dev").mkdir()
    write("dev/list.jsonl", lines({"audio": str(folder / "a.wav"), "text": "dev"}))
    assert texts(read_manifest(f"{folder}::test")) == [("a.wav", "test")]
    for name in ("dev", "validation"):
        assert texts(read_manifest(f"{folder}::{name}")) == [("a.wav", "dev")]
    both = read_manifest(f"{folder}::train+test")
    assert [text for _, text in texts(both)] == ["train", "test"]
    assert [problem.source for problem in both.problems] == [f"{folder}::train", f"{folder}::test"]
    with pytest.raises(ManifestError, match="has no split 'other': there is no list"):
        read_manifest(f"{folder}::train+other")
    write("metadata.csv", "file_name,text\na.wav,whole\n")
    assert texts(read_manifest(folder, split="validation")) == [("a.wav", "whole")]
    write("dev/metadata.csv", f"file_name,text\n{folder / 'a.wav'},table\n")
    assert texts(read_manifest(folder, split="validation")) == [("a.wav", "table")]


def test_a_list_named_after_the_split_is_read_before_the_metadata_of_its_folder(
    write: Write, folder: Path
) -> None:
    for name in ("metadata.csv", "train.csv", "dev.csv"):
        write(name, f"audio,text\na.wav,{name}\n")
    write("test.json", '{"learning_rate": 1e-5}')
    found = {"train": "train.csv", "validation": "dev.csv", "test": "metadata.csv", "other": "metadata.csv"}
    for split, name in found.items():
        assert texts(read_manifest(folder, split=split)) == [("a.wav", name)]
    write("test.json", lines({"audio": "a.wav", "text": "test.json"}))
    assert texts(read_manifest(f"{folder}::test")) == [("a.wav", "test.json")]


@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC")])
@pytest.mark.parametrize("within", [False, True])
def test_a_sound_is_found_however_its_system_writes_its_name(
    folder: Path, write: Write, forms: tuple[str, str], within: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if within:
        monkeypatch.setenv("SPACE_ID", "somebody/studio")
    listed, kept = (unicodedata.normalize(form, "größe/é.wav") for form in forms)
    (folder / kept).parent.mkdir()
    (folder / "a.wav").rename(folder / kept)
    named = (listed, listed.replace("/", "\\"), "clips\\b.flac", "..\\..\\secret.wav")
    manifest = read_manifest(write("list.jsonl", lines(*({"audio": name, "text": "x"} for name in named))))
    assert [row.audio_path for row in manifest.examples] == [
        folder / kept,
        folder / kept,
        folder / "clips" / "b.flac",
    ]
    (problem,) = manifest.problems
    assert ("did not come with its list" if within else "There is no audio file") in str(problem.reason)


def test_ends_of_lines_that_windows_has_doubled_are_no_blank_lines(write: Write) -> None:
    path = write("list.csv", "")
    path.write_bytes(b"audio,text\r\r\n" + b"a.wav,x\r\r\n" * 100_001)
    assert texts(read_manifest(path, max_rows=1)) == [("a.wav", "x")]


@pytest.mark.parametrize("name", ["train.csv", "validated.tsv", "train.jsonl.gz"])
def test_the_list_of_another_split_does_not_stand_in(folder: Path, name: str) -> None:
    rows = b'{"audio": "a.wav", "text": "x"}\n'
    (folder / name).write_bytes(gzip.compress(rows) if name.endswith("gz") else rows)
    assert texts(read_manifest(folder)) == [("a.wav", "x")]
    for split in ("test", "validation", "nonsense"):
        with pytest.raises(ManifestError, match=f"has a list {name}, and none of the split '{split}'"):
            read_manifest(folder, split=split)


@pytest.mark.parametrize("split", ["..", "../..", "a/b", "", "train[:1]"])
def test_a_split_leads_nowhere_else(write: Write, folder: Path, split: str) -> None:
    write("metadata.csv", "file_name,text\na.wav,whole\n")
    with pytest.raises(ManifestError, match="There is no manifest"):
        read_manifest(f"{folder}::{split}")


def test_a_folder_without_a_manifest_is_refused(folder: Path) -> None:
    with pytest.raises(ManifestError, match=r"no metadata\.csv"):
        read_manifest(folder)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("[" + "1," * 150_000 + "1]", "100001 of the first rows of .* cannot be used"),
        ("\n" * 150_000 + "[]", "more than 100,000 blank lines"),
        ("audio,text\n" + " \r\n" * 150_000, "more than 100,000 blank lines"),
    ],
)
def test_a_small_file_that_unpacks_to_no_list_is_not_read_to_its_end(
    rows: str, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "list.json.gz").write_bytes(gzip.compress(rows.encode()))
    with pytest.raises(ManifestError, match=sentence):
        read_manifest(tmp_path / "list.json.gz")


def test_only_so_many_good_rows_are_read(write: Write) -> None:
    rows = [{"audio": "gone.wav", "text": "x"}, *({"audio": "a.wav", "text": str(n)} for n in range(5))]
    manifest = read_manifest(write("list", lines(*rows)), max_rows=2)
    assert [example.text for example in manifest.examples] == ["0", "1"]


def test_a_hundred_thousand_rows_are_looked_up_once_each(write: Write) -> None:
    """No file is opened: each row costs one look at the folder, which a test can afford."""
    row = json.dumps({"audio": "a.wav", "text": "x", "duration": 3.0}) + "\n"
    manifest = read_manifest(write("list", row * 100_000))
    assert len(manifest.examples) == 100_000


def test_a_manifest_can_be_sent_to_another_process(write: Write) -> None:
    manifest = read_manifest(write("list", lines({"audio": "a.wav", "text": "x"}, "bad")))
    assert pickle.loads(pickle.dumps(manifest)) == manifest  # noqa: S301


@pytest.mark.skipif(not (DEMO_SPEECH / "train.jsonl").exists(), reason="the demo speech is not made yet")
def test_the_demo_speech_is_a_source_of_its_own() -> None:
    train, test = read_manifest("demo"), read_manifest("demo:test")
    assert train.problems == test.problems == ()
    assert train.source == "demo"
    assert test.hash == read_manifest("demo", split="test").hash != train.hash


def test_real_speech_is_read_without_a_problem(real_speech: Path) -> None:
    for name in ("aishell1_zh", "speechocean762_en"):
        manifest = read_manifest(real_speech / name / "train.jsonl")
        assert len(manifest.examples) == 300
        assert manifest.problems == ()


def test_a_hub_that_does_not_answer_is_said(tmp_path: Path) -> None:
    with pytest.raises(HubUnreachableError, match="the model hub does not answer"):
        read_manifest("somebody/speech:en:test", cache_dir=tmp_path)
    with pytest.raises(HubUnreachableError, match="the model hub is not asked"):
        read_manifest("somebody/speech", cache_dir=tmp_path, local_files_only=True)
    assert not list(tmp_path.iterdir())


def test_where_no_texts_are_needed_a_folder_a_list_and_a_table_of_sound_files_will_do(
    write: Write, folder: Path
) -> None:
    sounds = {"a.wav", "b.flac"}
    listed = write("sounds.txt", "\ufeffa.wav\n\nclips/b.flac\n")
    table = write("table.csv", "audio,speaker\na.wav,one\nclips/b.flac,two\n")
    rows = write("rows.jsonl", lines({"audio": "a.wav"}, {"audio": "clips/b.flac", "text": " said "}))
    for source, wanted in ((listed, ["", ""]), (table, ["", ""]), (rows, ["", "said"])):
        manifest = read_manifest(source, needs_text=False)
        assert [example.text for example in manifest.examples] == wanted and not manifest.problems
        assert {example.audio_path.name for example in manifest.examples} == sounds
        with pytest.raises(ManifestError):
            read_manifest(write("without.csv", "audio\na.wav\n"))
        source.unlink()
    (folder / "without.csv").unlink()
    manifest = read_manifest(folder, needs_text=False)
    assert {example.audio_path.name for example in manifest.examples} == sounds
    assert all(example.duration_seconds for example in manifest.examples)
    with pytest.raises(ManifestError, match=r"has no metadata\.csv"):
        read_manifest(folder)


def test_the_column_that_is_named_is_read_and_no_other(write: Write) -> None:
    rows = [{"audio": "a.wav", "text": "wrong", "sentence": "also wrong", "ipa": "right"}]
    for path in (write("list.json", lines(*rows)), write("list.csv", "audio,text,ipa\na.wav,wrong,right\n")):
        assert read_manifest(path, text_column="ipa").examples[0].text == "right"
        assert read_manifest(path).examples[0].text == "wrong", "the name counts for one manifest only"
        with pytest.raises(ManifestError, match="There is no column 'words' for the text: found 'audio'"):
            read_manifest(path, text_column="words")
    path = write("other.csv", "wav,audio,text\na.wav,missing.wav,hello\n")
    assert read_manifest(path, audio_column="WAV").examples[0].text == "hello"


@pytest.mark.parametrize("part", ["../../secret", "/etc/list", "a.b", "nothing here", "more"])
def test_the_demo_speech_leads_nowhere_else(part: str) -> None:
    with pytest.raises(ManifestError, match="has no part"):
        read_manifest(f"demo:{part}")


def test_sound_in_letters_is_no_path_and_is_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "list.jsonl"
    path.write_text(json.dumps({"audio": "UklGR" * 10_000, "text": "x"}), encoding="utf-8")
    with pytest.raises(ManifestError, match="names no audio file") as refused:
        read_manifest(path)
    assert len(str(refused.value)) < 400
