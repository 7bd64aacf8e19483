"""What a model left out."""

from studio.transcription.left_out import left_out

WORDS = [(1.0, 1.4), (8.0, 8.5), (1.4, 2.0)]


def test_a_voice_between_words_is_found_with_some_sound_around_it() -> None:
    assert left_out(WORDS, [(0.9, 2.1), (3.0, 6.0), (7.9, 8.6)], 10.0) == [(2.0, 8.0)]
    assert left_out(WORDS, [(1.0, 2.0), (3.0, 6.0), (8.0, 8.5)], 10.0) == [(2.8, 6.2)]


def test_a_voice_before_the_first_word_and_behind_the_last_is_found() -> None:
    assert left_out(WORDS[1:2], [(0.5, 2.0), (8.0, 11.0)], 12.0) == [(0.3, 2.2), (8.5, 11.2)]
    assert left_out([], [(0.5, 2.0)], 12.0) == [(0.3, 2.2)]
    assert left_out(WORDS, [(9.5, 12.0)], 10.0) == [], "the next window's"


def test_what_one_of_two_witnesses_covers_was_heard() -> None:
    assert left_out([*WORDS, (1.0, 5.5)], [(3.0, 6.0)], 10.0) == []


def test_breaths_and_silence_are_nothing() -> None:
    assert left_out(WORDS, [(1.0, 2.0), (3.0, 3.8), (8.0, 8.5)], 10.0) == []
    assert left_out(WORDS, [], 10.0) == []
