"""Text becomes markup in one place, and is escaped there."""

from studio.reports.markup import Html, join, table, tag


def test_text_and_attributes_are_escaped() -> None:
    made = tag("td", "<img src=x onerror=alert(1)>", title='"><script>')
    assert made == '<td title="&quot;&gt;&lt;script&gt;">&lt;img src=x onerror=alert(1)&gt;</td>'


def test_markup_is_not_escaped_again() -> None:
    assert tag("p", tag("b", "a & b"), " & c") == "<p><b>a &amp; b</b> &amp; c</p>"


def test_children_may_be_missing_numbers_and_nested_lists() -> None:
    assert join([None, 3, ["a", [Html("<i>")]]]) == "3a<i>"


def test_attributes_without_a_value_are_left_out_or_bare() -> None:
    made = tag("audio", controls=True, hidden=False, data_x=None, class_="p")
    assert made == '<audio controls class="p"></audio>'


def test_a_table_has_headers_for_screen_readers() -> None:
    made = table(["Part", "Size"], [["a<b", 1]], numeric=[1])
    assert '<th scope="col">Part</th>' in made and "a&lt;b" in made and '<td class="number"' in made
