import pytest

from studio.errors import ConfigError
from studio.evaluation.normalize import normalize, writes_without_spaces
from studio.options.choices import NORMALIZERS

TEN_SCRIPTS = {
    "Latin": "où vient le café, noir",
    "Cyrillic": "Добрый день, как дела",
    "Greek": "καλημέρα σας, τι κάνετε",
    "Arabic": "اللُّغَةُ العَرَبِيَّةُ جميلة",
    "Hebrew": "שָׁלוֹם עֲלֵיכֶם, חברים",
    "Devanagari": "हिन्दी में यह कैसा है।",
    "Bengali": "আমি বাংলায় কথা বলি।",
    "Tamil": "தமிழ் மொழி இனிமையானது.",
    "Thai": "ภาษาไทย ที่นี่ ดีมาก",
    "Khmer": "ភាសាខ្មែរ ពិរោះណាស់។",
}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("none", "  Hello,  World! ", "Hello,  World!"),
        ("lowercase", " Hello, ÉCOLE! ", "hello, école!"),
        ("basic", "  Hello,  World! [noise]", "hello world"),
        ("basic", "¿Qué tal?", "qué tal"),
        ("basic", "हिन्दी में, यह कैसा है।", "हिन्दी में यह कैसा है"),
        ("whisper_basic", "हिन्दी में", "ह न द म"),
        ("whisper_basic", "¿Qué tal?", "qué tal"),
        ("basic", "می\u200cخواهم ❤️ 👨‍👩‍👧 love", "میخواهم love"),
        ("no_punctuation", "«हिन्दी», می\u200cخواهم! ❤️ වාක්\u200dය", "हिन्दी می\u200cخواهم වාක්\u200dය"),
        ("no_punctuation", "п'ять café's Größe’s l'été-là", "п'ять café's Größe’s l'été-là"),
        (
            "no_punctuation",
            "слово—слово été…oui صباح،الخير दिन।रात",
            "слово слово été oui صباح الخير दिन रात",
        ),
        ("no_punctuation", "今天,好。再见 カ・タ ภาษา-ไทย", "今天 好 再见 カ タ ภาษา ไทย"),
        ("english", "Mr. Smith isn't twenty-one, he's $30.", "mister smith is not 21 he is $30"),
        ("english", "Um, it's uh okay", "it is okay"),
        ("chinese", "臺灣的後面，有 3 個軟體！", "台湾的后面有3个软体"),
        ("chinese", "ＡＢＣ　中文。", "abc中文"),
    ],
)
def test_each_normalizer_drops_what_it_says(name: str, text: str, expected: str) -> None:
    assert normalize(text, name) == expected


@pytest.mark.parametrize("name", NORMALIZERS)
@pytest.mark.parametrize("text", ["", "   ", "Hello, World!", "繁體字，好", "12 %", "வணக்கம், 👩🏽‍💻 க்ஷ"])
def test_normalizing_twice_is_normalizing_once(name: str, text: str) -> None:
    once = normalize(text, name)
    assert normalize(once, name) == once


def test_an_unknown_normalizer_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="none, lowercase, basic, whisper_basic, english, chinese"):
        normalize("x", "klingon")


def test_british_spelling_is_american_to_whispers_normaliser_for_english() -> None:
    assert normalize("The Colour, analysed", "english") == "the color analyzed"


def test_languages_without_spaces_are_known_by_code_and_name() -> None:
    for language in (
        "zh",
        "ZH-tw",
        "zh_CN",
        "Chinese",
        "cmn_hans_cn",
        "Mandarin Chinese",
        "cantonese chinese",
        "<|zh|>",
        "ja",
        "japanese",
        "th",
        "lo",
        "my",
        "yue",
        "km",
        "bo",
    ):
        assert writes_without_spaces(language)
    for language in ("en", "english", "ko", "de", "auto", "", "klingon"):
        assert not writes_without_spaces(language)


@pytest.mark.parametrize(
    "name", [name for name in NORMALIZERS if name not in ("whisper_basic", "english", "chinese")]
)
@pytest.mark.parametrize("text", TEN_SCRIPTS.values(), ids=TEN_SCRIPTS)
def test_a_word_stays_one_word_in_every_script(name: str, text: str) -> None:
    assert len(normalize(text, name).split()) == len(text.split())
