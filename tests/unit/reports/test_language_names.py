"""Languages by the names that visitors call them."""

import pytest

from studio.registry.languages import LANGUAGES
from studio.reports.language_names import language_choices, language_name
from studio.translation import LOCALES


@pytest.mark.parametrize(
    ("locale", "automatic", "german", "javanese"),
    [
        ("en", "Automatic", "German (de)", "Javanese (jw)"),
        ("zh-CN", "自动", "德语 (de)", "爪哇语 (jw)"),
        ("zh-TW", "自動", "德文 (de)", "爪哇文 (jw)"),
    ],
)
def test_every_language_of_whisper_can_be_chosen(
    locale: str, automatic: str, german: str, javanese: str
) -> None:
    choices = language_choices(locale)
    assert choices[0] == (automatic, "auto")
    assert {code for _, code in choices} == {"auto", *LANGUAGES}
    assert {(german, "de"), (javanese, "jw")} <= set(choices)


def test_a_list_is_in_an_order_that_its_reader_knows() -> None:
    names = [name for name, _ in language_choices("en")[1:]]
    assert names == sorted(names)
    assert [code for _, code in language_choices("zh-CN")[1:5]] == ["en", "zh", "de", "es"]


@pytest.mark.parametrize("locale", sorted(set(LOCALES) - {"en"}))
def test_no_name_stays_in_english(locale: str) -> None:
    assert not [code for code in LANGUAGES if language_name(code, locale).isascii()]


def test_a_code_that_nobody_knows_stays_as_it_is() -> None:
    assert [language_name("tlh", locale) for locale in LOCALES] == ["tlh"] * len(LOCALES)
