import os
import time
from pathlib import Path

import pytest

from studio import files
from studio.errors import ConfigError
from studio.files import (
    append_json_line,
    files_below,
    forget_old,
    parse_yaml,
    read_json_lines,
    write_new,
    write_text,
)

EARLIER, LAST, NEXT = {"number": 1}, {"text": '早安 {"}\n', "more": [1, {"a": None}]}, {"number": 3}


def test_a_file_of_the_longest_name_is_written_and_nothing_takes_the_place_of_what_is_there(
    tmp_path: Path,
) -> None:
    longest, link = tmp_path / ("x" * 255), tmp_path / "link"
    write_new(longest, "a")
    write_text(longest, "b")
    link.symlink_to(tmp_path / "nowhere")
    for path in (longest, link):
        with pytest.raises(ConfigError, match="is there already"):
            write_new(path, "c")
    assert longest.read_text(encoding="utf-8") == "b"
    assert set(tmp_path.iterdir()) == {longest, link}


def test_a_line_that_was_cut_off_takes_no_other_with_it(tmp_path: Path) -> None:
    """As a process leaves it that is killed while it writes, or whose disk is full."""
    path = tmp_path / "lines.jsonl"
    append_json_line(path, EARLIER)
    begin = path.stat().st_size
    append_json_line(path, LAST)
    whole = path.read_bytes()
    for end in range(begin, len(whole) + 1):
        path.write_bytes(whole[:end])
        before, offset = read_json_lines(path)
        append_json_line(path, NEXT)
        append_json_line(path, NEXT)
        has_last = end >= len(whole) - 1  # all but its end is there
        found = [LAST] * has_last + [NEXT, NEXT]
        assert read_json_lines(path)[0] == [EARLIER, *found], f"cut after {end} bytes"
        assert before + read_json_lines(path, offset)[0] == [EARLIER, *found], "who follows the file, too"


def test_a_file_that_is_cut_off_at_its_first_line_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b'{"num')
    append_json_line(path, NEXT)
    assert read_json_lines(path)[0] == [NEXT]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: &a [x]\nb: &b [*a, *a]\n", "aliases"),
        ("a: &a [*a]", "aliases"),
        ("<<: {lora_r: 4}", "merged maps"),
        ("<<: [{a: 1}, {b: 2}]", "merged maps"),
        ("[" * 60, "too deeply"),
        ("- " * 60 + "a", "too deeply"),
        ("a: 1" + ":59" * 10_000, "more than 1000 characters"),
        ("a: 1" + ":59" * 300 + ".5", "too large"),
        ("a: [1", "expected"),
        ("a: !mine b", "tags"),
        ('a: !!timestamp "1111"', "tags"),
        (f'a: !!int "0x{"f" * 2000}"', "tags"),
        ("a: 2026-13-45", "month"),
    ],
)
def test_yaml_that_takes_more_than_its_length_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_yaml(text)


def test_yaml_of_plain_values_is_read() -> None:
    assert parse_yaml("a: [1, {b: no}]") == {"a": [1, {"b": False}]}
    for prose in ("long " * 1000 + "text", "長文" * 1000):
        assert parse_yaml(f"a: {prose}\n") == {"a": prose}
    assert parse_yaml("") is None


def test_sounds_are_found_below_a_folder_but_not_on_a_whole_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("b/two.WAV", "a.wav", "b/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "b" / "again").symlink_to(tmp_path)
    assert files_below(tmp_path, (".wav",)) == [tmp_path / "a.wav", tmp_path / "b" / "two.WAV"]
    assert files_below(tmp_path / "none", (".wav",)) == []
    monkeypatch.setattr(files, "_MOST_BELOW", 4)
    with pytest.raises(ConfigError, match="more than 4 files and folders"):
        files_below(tmp_path, (".wav",))


def test_what_is_old_goes_whoever_else_clears_up_and_whatever_the_clock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ages = {"new.json": 10, "old.json": 4000, "of-tomorrow.json": -4000, "old.txt": 4000}
    for name, age in ages.items():
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    found = [*tmp_path.glob("*.json"), tmp_path / "gone.json"]
    monkeypatch.setattr(Path, "glob", lambda *_: iter(found))
    forget_old(tmp_path, "*.json", 3600)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.json", "old.txt"]
