"""`record`: lists of sentences without the page."""

import json
from pathlib import Path

import pytest

from studio.cli.record import run
from studio.errors import ConfigError
from studio.settings import Settings
from tests.micro import make_tones


def test_a_list_is_made_read_and_removed(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "sentences.txt"
    text.write_text("one\ntwo\n", encoding="utf-8")
    tone = make_tones(tmp_path, count=1).parent / "tone0.wav"
    assert run(["create", "mine", str(text), "--language", "en"], settings) == 0
    for same in ([], ["--language", "en"]):
        assert run(["create", "mine", str(text), *same], settings) == 0
    for other in (["--language", "sv"], ["--speaker", "Anna"]):
        with pytest.raises(ConfigError, match="mine with the language en and the speaker '': leave both"):
            run(["create", "mine", str(text), *other], settings)
    assert run(["add", "mine", "2", str(tone)], settings) == 0
    with pytest.raises(ConfigError, match="Sentence 2 of mine has been read already: add --overwrite"):
        run(["add", "mine", "2", str(tone)], settings)
    assert run(["add", "mine", "2", str(tone), "--overwrite"], settings) == 0
    capsys.readouterr()
    assert run(["list", "--json"], settings) == 0
    found = json.loads(capsys.readouterr().out)["sessions"][0]
    assert (found["name"], found["sentences"], found["recorded"]) == ("mine", 2, 1)
    assert Path(found["manifest"]).is_file()
    assert run(["show", "mine"], settings) == 0
    shown = capsys.readouterr().out
    assert "mine: 1 of 2 sentences read" in shown and "1.0 s  two" in shown
    with pytest.raises(ConfigError, match="add --yes"):
        run(["delete", "mine"], settings)
    capsys.readouterr()
    assert run(["delete", "mine", "--yes", "--json"], settings) == 0
    assert json.loads(capsys.readouterr().out) == {"schema_version": 1, "deleted": "mine"}
    assert list(settings.recordings.iterdir()) == []


def test_a_single_sentence_is_not_several(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "one.txt").write_text("one\n", encoding="utf-8")
    assert run(["create", "mine", str(tmp_path / "one.txt")], settings) == 0
    assert "mine: 0 of 1 sentence read" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["create", "x"], ["sing"], ["add", "x", "one", "a.wav"]])
def test_slips_are_answered_in_a_sentence(words: list[str], settings: Settings) -> None:
    with pytest.raises(ConfigError):
        run(words, settings)
