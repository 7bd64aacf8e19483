import pytest

from studio.dataset.written import unspaced


@pytest.mark.parametrize(
    ("listed", "written"),
    [
        ("其 中 有 两 个", "其中有两个"),
        ("而 对 楼市 成交 抑制 作用 最 大", "而对楼市成交抑制作用最大"),
        ("我 要 看 game of thrones", "我要看game of thrones"),
        ("今日 は いい 天気 です", "今日はいい天気です"),
        ("我们今天去公园 明天再回来吧", "我们今天去公园 明天再回来吧"),
        ("今日はいい天気です 散歩に行きます", "今日はいい天気です 散歩に行きます"),
        ("안녕 하 세 요", "안녕 하 세 요"),
        ("สวัสดี ครับ", "สวัสดี ครับ"),
        ("it is so 好", "it is so 好"),
        ("好", "好"),
    ],
)
def test_spaces_of_corpora_between_chinese_or_japanese_words_go_and_those_of_people_stay(
    listed: str, written: str
) -> None:
    assert unspaced(listed) == written
