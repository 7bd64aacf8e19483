"""Simplified and traditional characters."""

import pytest

from studio.chinese import converted, main_script, script_of


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("头发", "simplified"),
        ("頭髮", "traditional"),
        ("人 2", ""),
        ("", ""),
        ("公里", ""),
        ("國国", "simplified"),
        ("我們說公里", "traditional"),
        ("hello", ""),
    ],
)
def test_a_text_tells_its_script(text: str, script: str) -> None:
    assert main_script(text) == script


@pytest.mark.parametrize(
    ("simplified", "traditional"),
    [
        ("这里有五公里", "這裡有五公里"),
        ("里程碑，千里之外", "里程碑，千里之外"),
        ("征服，游泳，咸丰年间", "征服，游泳，咸豐年間"),
        ("头发干净，干杯", "頭髮乾淨，乾杯"),
        ("皇后在后面", "皇后在後面"),
        ("一只狗只吃面条", "一隻狗只吃麵條"),
        ("理发店的发票", "理髮店的發票"),
    ],
)
def test_a_phrase_decides_which_character_it_is(simplified: str, traditional: str) -> None:
    assert converted(simplified, "traditional") == traditional
    assert converted(traditional, "simplified") == simplified


def test_what_is_of_the_script_already_is_left_alone() -> None:
    for text in ("鄰里", "這位姓范的先生", "裏面為什麼"):
        assert converted(text, "traditional") == text
    assert converted("乾隆说", "simplified") == "乾隆说"


def test_characters_of_both_scripts_are_of_none() -> None:
    assert [script_of(character) for character in "里后干只说說a"] == [
        "",
        "",
        "",
        "",
        "simplified",
        "traditional",
        "",
    ]
