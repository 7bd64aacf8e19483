"""Names and codes of languages."""

import pytest

from studio.errors import ConfigError
from studio.registry.languages import LANGUAGES
from studio.transcription.languages import join_texts, resolve_language


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("zh", ["Chinese", "mandarin", "zh", "zh-TW", "zh_CN", "<|zh|>"]),
        ("yue", ["Cantonese"]),
        ("en", ["en-US", "ENGLISH", "eng"]),
        ("zh", ["cmn", "zho", "chi", "cmn_hans_cn"]),
        ("de", ["deu", "ger", "deu-AT"]),
        ("no", ["nb", "nob", "nor"]),
        ("tl", ["tgl", "fil"]),
        ("he", ["iw", "heb"]),
        ("ht", ["Haitian Creole"]),
        ("es", ["Castilian"]),
        ("auto", [" auto ", "", "None", "null"]),
    ],
)
def test_a_language_is_known_by_name_and_by_code(code: str, names: list[str]) -> None:
    assert [resolve_language(name) for name in names] == [code] * len(names)


def test_a_misspelt_language_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"'Germann' is no language of Whisper.*German \(de\)"):
        resolve_language("Germann")


def test_a_language_the_model_lacks_is_refused_with_those_it_has() -> None:
    with pytest.raises(ConfigError, match=r"does not know.*en \(english\), zh \(chinese\)"):
        resolve_language("French", ("en", "zh"))
    with pytest.raises(ConfigError) as error:
        resolve_language("yue", [code for code in LANGUAGES if code != "yue"])
    assert "… (99), or auto" in str(error.value) and len(str(error.value)) < 250


def test_an_english_only_model_takes_english_and_auto_and_refuses_the_rest() -> None:
    assert resolve_language("auto", ()) == "en"
    assert resolve_language("English", ()) == "en"
    with pytest.raises(ConfigError, match="knows English only"):
        resolve_language("zh", ())


def test_texts_are_joined_as_the_script_writes_them() -> None:
    assert join_texts([" And so", "my fellow "], "en") == "And so my fellow"
    assert join_texts(["打开", "厨房的灯"], "zh") == "打开厨房的灯"
    assert join_texts(["我用", "Windows", "Linux"], "zh") == "我用WindowsLinux".replace("sL", "s L")
    assert join_texts(["", "  "], "en") == ""
