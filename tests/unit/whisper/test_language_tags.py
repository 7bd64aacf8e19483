import pytest

from studio.whisper.language_tags import language_of_tag


@pytest.mark.parametrize("tag", ["de", "DE", "de-AT", "de_at", "deu", "ger", "DEU-AT"])
def test_all_tags_of_a_language_mean_the_same(tag: str) -> None:
    assert language_of_tag(tag) == "de"


def test_what_is_no_tag_stays() -> None:
    assert language_of_tag("german") == "german" and language_of_tag("") == ""
