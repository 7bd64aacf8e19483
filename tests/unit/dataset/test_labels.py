from pathlib import Path

from studio.dataset.labels import label_counter


def test_a_label_is_its_text_and_four_special_tokens(whisper_tiny: Path) -> None:
    count = label_counter(whisper_tiny)
    assert count("hello world") == 2 + 4
    assert count("hello " * 500) > 448
