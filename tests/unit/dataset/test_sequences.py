"""Long lists that are not in memory."""

import gc
import pickle
import subprocess
import sys
from pathlib import Path
from socket import gethostname

import numpy as np
import pytest
import soundfile

from studio.dataset import sequences
from studio.dataset.example import Example, TextSegment
from studio.dataset.sequences import Chosen, Joined, Made, StoredExamples, store
from studio.errors import StorageError
from tests.reading import read_manifest
from tests.studio_process import ROOT

COUNT = sequences.IN_MEMORY + 10


def example(number: int) -> Example:
    told = (None, None, 1.5, 1.5, (TextSegment(0.0, 1.0, "a"),), number, number + 5, "somebody", "before")
    return Example(Path(f"/clips/{number}.wav"), f"句子 {number}", "zh", *told)


def test_many_examples_come_back_from_their_file_as_they_were(tmp_path: Path) -> None:
    stored = store(map(example, range(COUNT)), tmp_path)
    assert isinstance(stored, StoredExamples) and len(stored) == COUNT
    assert stored[17] == example(17) and stored[-1] == example(COUNT - 1)
    assert list(stored) == [example(number) for number in range(COUNT)]
    assert [row.line for row in stored[5:8]] == [5, 6, 7]
    assert pickle.loads(pickle.dumps(stored))[3] == example(3)  # noqa: S301


def test_rows_that_are_many_are_kept_where_the_reader_says(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.full(16_000, 0.1), 16_000)
    listed = tmp_path / "many.csv"
    listed.write_text("audio,text,duration\n" + "a.wav,eins,1.0\n" * COUNT, encoding="utf-8")
    manifest = read_manifest(listed, cache_dir=tmp_path / "cache")
    assert len(manifest.examples) == COUNT
    assert len(list((tmp_path / "cache" / "rows").iterdir())) == 1


def test_the_file_goes_with_its_last_reader(tmp_path: Path) -> None:
    stored = store(map(example, range(COUNT)), tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    del stored
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_files_of_killed_processes_are_removed(tmp_path: Path) -> None:
    code = [sys.executable, "-c", "import os; print(os.getpid())"]
    ended = subprocess.run(code, capture_output=True, text=True).stdout.strip()
    left = [tmp_path / f"rows-{owner}{ended}-x.jsonl" for owner in ("", f"{gethostname()}-")]
    of_another_machine = tmp_path / f"rows-{gethostname()}-2-{ended}-x.jsonl"
    for path in (*left, of_another_machine):
        path.write_text("", encoding="utf-8")
    stored = store(map(example, range(COUNT)), tmp_path)
    assert not any(path.exists() for path in left) and of_another_machine.exists() and len(stored) == COUNT


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StorageError, match="Cannot write"):
        store(map(example, range(COUNT)), tmp_path / "file" / "rows")


def test_few_examples_stay_in_memory(tmp_path: Path) -> None:
    assert store(map(example, range(3)), tmp_path / "rows") == tuple(map(example, range(3)))
    assert not (tmp_path / "rows").exists()


def test_views_show_what_they_are_views_of() -> None:
    assert list(Chosen("abcd", [3, 0, 0])) == ["d", "a", "a"]
    assert list(Joined(["ab", "", "c"])) == ["a", "b", "c"] and Joined(["ab", "c"])[2] == "c"
    assert list(Made([1, 2], str)) == ["1", "2"] and Made([1, 2], str)[-1] == "2"


_MEASURE = """
import sys
from pathlib import Path
import psutil
from studio.dataset.manifest import read_manifest
from studio.options.training import TrainingConfig
from studio.settings import Settings
from studio.training.data.clips import label_data
from studio.training.data.sources import read_source
from studio.transcription.special_tokens import SpecialTokens
process = psutil.Process()
import numpy
before = process.memory_info().rss
config = TrainingConfig(train_data=sys.argv[1], language="en")
source = read_source(config, Settings.from_env())
tasks = {"transcribe": 50359}
tokens = SpecialTokens(50257, 50258, 50363, languages={"en": 50259}, tasks=tasks)
data = label_data(source, config, tokens, lambda text: [ord(letter) for letter in text], None, 448)
print(len(data.train), len(data.evaluation), data.train[len(data.train) // 2].labels[-1], data.languages)
print((process.memory_info().rss - before) / 2**20)
"""


def test_a_manifest_of_thirty_thousand_rows_takes_little_memory(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """As objects in memory they would take 34 MiB."""
    (tmp_path / "a.wav").write_bytes(b"RIFF")
    manifest = tmp_path / "train.jsonl"
    row = '{"audio": "a.wav", "text": "the sentence with the number %s", "duration": 3.0}\n'
    manifest.write_text("".join(row % number for number in range(30_000)))
    code = [sys.executable, "-c", _MEASURE, str(manifest)]
    alone = {**environ, "STUDIO_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(code, capture_output=True, text=True, env=alone)
    assert done.returncode == 0, done.stderr
    counts, mib = done.stdout.splitlines()
    assert counts == "27000 3000 50257 ('en',)"
    assert float(mib) < 15
