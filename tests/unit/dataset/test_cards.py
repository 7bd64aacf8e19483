"""Cards of datasets: what they name, and what they may take to be read."""

from pathlib import Path

import pytest

from studio.dataset.cards import CARDS, MOST_BYTES, require_own_files
from studio.errors import ManifestError

NESTED = "a0: &a0 [data/a.csv]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)
"""Of some hundred bytes, with a billion paths in them."""


def card_of(folder: Path, name: str, text: str) -> Path:
    """A file with this YAML."""
    card = folder / name
    content = f"---\n{text}\n---\n# A dataset\n" if card.suffix == ".md" else text
    card.write_bytes(content.encode())
    return card


@pytest.mark.parametrize("name", CARDS)
def test_a_card_may_name_files_of_its_dataset_and_no_others(name: str, tmp_path: Path) -> None:
    configs = "configs:\n- config_name: default\n  data_files: [{split: train, path: ['data/*', 'PLACE']}]"
    require_own_files(card_of(tmp_path, name, configs.replace("PLACE", "more/*")), "mine")
    require_own_files(card_of(tmp_path, name, ""), "mine")
    for ends in ("\n", "\r\n"):
        elsewhere = configs.replace("PLACE", "/etc/hostname").replace("\n", ends)
        with pytest.raises(ManifestError, match="mine names files that are not in its dataset"):
            require_own_files(card_of(tmp_path, name, elsewhere), "mine")


@pytest.mark.parametrize("name", CARDS)
def test_a_card_that_takes_more_than_its_length_is_refused(name: str, tmp_path: Path) -> None:
    nested = f"{NESTED}configs:\n- config_name: default\n  data_files: *a9"
    with pytest.raises(ValueError, match="aliases"):
        require_own_files(card_of(tmp_path, name, nested), "mine")
    with pytest.raises(ManifestError, match=r"mine is longer than 1\.00 MiB"):
        require_own_files(card_of(tmp_path, name, "#" * (MOST_BYTES + 1)), "mine")


def test_a_card_without_yaml_names_nothing(tmp_path: Path) -> None:
    card = tmp_path / "README.md"
    card.write_text("# Only *words*: [a, b\n", encoding="utf-8")
    require_own_files(card, "mine")
