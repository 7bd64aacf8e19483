"""Every text that the page may show is there in both kinds of Chinese."""

import re
import string

import pytest

from studio.translation import LOCALES, catalogue, paragraph
from tests.unit.texts import error_texts, page_texts

CHINESE = [locale for locale in LOCALES if locale != "en"]


@pytest.fixture(scope="module")
def all_texts() -> set[str]:
    """What the search finds, of labels, tables, errors and rows."""
    of_page, of_errors = page_texts(), error_texts()
    assert {"Learning rate", "Optimizer states", "Rank of the adapter."} <= of_page
    assert any("did you mean" in text for text in of_errors)
    return of_page | of_errors


def fields_of(text: str) -> list[str]:
    return sorted(field for _, field, _, _ in string.Formatter().parse(text) if field)


@pytest.mark.parametrize("locale", CHINESE)
def test_every_text_is_translated_and_nothing_else(locale: str, all_texts: set[str]) -> None:
    assert set(catalogue(locale)) == all_texts


@pytest.mark.parametrize("locale", CHINESE)
def test_a_translation_has_the_fields_of_its_text(locale: str) -> None:
    wrong = {text: shown for text, shown in catalogue(locale).items() if fields_of(text) != fields_of(shown)}
    assert wrong == {}


def test_taiwan_reads_taiwans_words() -> None:
    mainland = re.compile("内存|視頻|音頻|軟件|硬件|文件夾|數據|默認|屏幕|網絡|顯存|轉寫|發佈|保存|塊 GPU")
    wrong = [text for text in catalogue("zh-TW").values() if mainland.search(text)]
    assert wrong == []


def test_marks_of_a_terminal_do_not_reach_the_page(all_texts: set[str]) -> None:
    assert [text for text in all_texts if "`" in text] == []


def test_chinese_sentences_follow_without_a_space() -> None:
    assert paragraph(["One.", "Two."], "en") == "One. Two."
    assert paragraph(["一。", "二。"], "zh-TW") == "一。二。"
