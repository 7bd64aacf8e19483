"""A text that is not UTF-8 is refused, with what it seems to be in, a line of it, and what converts it."""

from pathlib import Path

import pytest

from studio.dataset.encodings import not_utf8
from studio.errors import ManifestError
from tests.reading import read_manifest
from tests.unit.dataset.formats.conftest import write_sound

CHINESE = "今天天气很好，我们去公园散步吧。"
TAIWANESE = "今天天氣很好，我們去公園散步吧。"
JAPANESE = "今日はとても天気がいいですね。"
KOREAN = "오늘은 날씨가 아주 좋습니다."
RUSSIAN = "Сегодня очень хорошая погода."
FRENCH = "L’été dernier, nous étions à la forêt près du château, où l’âne a été trouvé."
CZECH = "Příliš žluťoučký kůň úpěl ďábelské ódy, řekl děda."


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("GB18030", CHINESE),
        ("BIG5-HKSCS", TAIWANESE),
        ("CP932", JAPANESE),
        ("EUC-JP", JAPANESE),
        ("CP949", KOREAN),
        ("CP1251", RUSSIAN),
        ("CP1252", FRENCH),
        ("CP1250", CZECH),
    ],
)
@pytest.mark.parametrize("cut", [0, 1])
def test_what_a_text_seems_to_be_in_is_said_with_its_line_and_a_command(
    encoding: str, text: str, cut: int
) -> None:
    data = f"audio,text\na.wav,hello\nb.wav,{text}\nc.wav,{text}".encode(encoding)
    said = str(not_utf8(Path("my list.csv"), data[: len(data) - cut], 5))
    begin = next(place for place, letter in enumerate(text) if letter > "~")
    assert said == (
        f"my list.csv is not UTF-8 text (line 7). It seems to be {encoding}, in which that line has “"
        f"{text[begin : begin + 60].strip()}”. If that is right, make it UTF-8 with iconv -f {encoding} "
        "-t UTF-8 'my list.csv' > 'my list-utf8.csv'; if not, save it again in UTF-8."
    )


@pytest.mark.parametrize(
    "data",
    [
        "audio,text\na.wav,caf\u00e9\n".encode("latin-1"),
        RUSSIAN.encode("koi8-r"),
        CHINESE.encode()[:-1],
        CHINESE.encode("utf-16"),
        bytes(range(128, 256)),
    ],
)
def test_where_nothing_is_likely_nothing_is_named(data: bytes) -> None:
    assert str(not_utf8(Path("a.csv"), data)).endswith("save it again in UTF-8 (in Excel: CSV UTF-8).")


@pytest.mark.parametrize("name", ["list.csv", "a.txt", "transcript.txt", "a.srt"])
def test_it_is_said_wherever_texts_are_read(tmp_path: Path, name: str) -> None:
    write_sound(tmp_path / "a.wav", 1)
    for text in ("list.csv", "a.txt", "transcript.txt", "a.srt"):
        (tmp_path / text).unlink(missing_ok=True)
    header = "audio,text\n" if name == "list.csv" else ""
    (tmp_path / name).write_bytes(f"{header}a,{CHINESE}".encode("gbk"))
    with pytest.raises(ManifestError, match=f"It seems to be GB18030, in which that line has “{CHINESE}”"):
        read_manifest(tmp_path)
