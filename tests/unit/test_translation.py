"""Every text that the page may show is there in both kinds of Chinese."""

import re
import string

import pytest

from studio.messages import Message
from studio.translation import LOCALES, catalogue, paragraph, tr
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


@pytest.mark.parametrize("locale", CHINESE)
def test_what_is_to_be_said_in_english_is_the_same_in_each_language(locale: str) -> None:
    said = re.compile("[“「]([a-z]+(?: [a-z]+){2,})[”」]")
    wanted = {
        shown: set(said.findall(text)) for text, shown in catalogue(locale).items() if said.search(shown)
    }
    assert wanted and all(set(said.findall(shown)) == phrases for shown, phrases in wanted.items())


def test_taiwan_reads_taiwans_words() -> None:
    mainland = re.compile("内存|視頻|音頻|軟件|硬件|文件夾|數據|默認|屏幕|網絡|顯存|轉寫|發佈|保存|塊 GPU")
    wrong = [text for text in catalogue("zh-TW").values() if mainland.search(text)]
    assert wrong == []


@pytest.mark.parametrize("locale", CHINESE)
def test_full_width_marks_have_no_space_beside_them(locale: str) -> None:
    spaced = re.compile(" [（）「」《》“”，。：；！？、]|[（）「」《》“”，。：；！？、] ")
    assert [text for text in catalogue(locale).values() if spaced.search(text)] == []
    sentence, label = "{name} must be a whole number, got {value!r}.", Message("Early stopping (evaluations)")
    assert spaced.search(tr(sentence, locale, name=label, value="x")) is None
    assert re.match(r"\w+，", tr(sentence, locale, name=Message("Epochs"), value="x"))
    assert "我的 " in tr(sentence, locale, name="我的", value="x"), "what people call things stands apart"
    folded, section = "{label} (under “{section}”)", Message("Search")
    assert "下的 GPU " in tr(folded, locale, label=Message("GPUs"), section=section)
    assert "下的 " not in tr(folded, locale, label=Message("Epochs"), section=section)


def test_marks_of_a_terminal_do_not_reach_the_page(all_texts: set[str]) -> None:
    assert [text for text in all_texts if "`" in text] == []


@pytest.mark.parametrize(
    ("template", "said", "in_chinese"),
    [
        ("Repetitions without end in {count} clips.", "Repetitions without end in 1 clip.", "1 个片段"),
        ("{count} visitors are ahead of you.", "1 visitor is ahead of you.", "1 位"),
        ("{count} files of noise_dir are left out: {reason}", "1 file of noise_dir is left out: x", "1 个"),
        ("{count} files, {reason}, are in it.", "1 file, x, is in it.", ""),
        ("{count} of {many} recordings are done.", "1 of 11 recordings is done.", ""),
        ("{count} processes need a core each.", "1 process needs a core each.", ""),
        ("Sentence {count} runs from 2 to 3 s.", "Sentence 1 runs from 2 to 3 s.", ""),
    ],
)
def test_one_of_a_thing_is_singular(template: str, said: str, in_chinese: str) -> None:
    values = {"reason": "x", "many": 11}
    assert str(Message(template, count=1, **values)) == tr(template, "en", count=1, **values) == said
    assert in_chinese in tr(template, "zh-CN", count=1, **values)
    assert template.format(count=11, **values) == tr(template, "en", count=11, **values)


def test_chinese_sentences_follow_without_a_space() -> None:
    assert paragraph(["One.", "Two."], "en") == "One. Two."
    assert paragraph(["一。", "二。"], "zh-TW") == "一。二。"
