"""Safetensors files judged by their headers."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from studio.errors import ModelBrokenError
from studio.registry.tensors import read_all_shapes, read_shapes


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    save_file({"a": np.zeros((3, 4), np.float32), "b": np.ones(5, np.float16)}, path, {"format": "pt"})
    return path


def test_names_and_shapes_are_read(weights: Path) -> None:
    assert read_shapes(weights) == {"a": (3, 4), "b": (5,)}


@pytest.mark.parametrize("kept_bytes", [1, 20, 100, -1])
def test_a_file_cut_anywhere_is_found_out(weights: Path, kept_bytes: int) -> None:
    weights.write_bytes(weights.read_bytes()[:kept_bytes])
    with pytest.raises(ModelBrokenError, match=r"model\.safetensors is (cut short|not a safetensors)"):
        read_shapes(weights)


@pytest.mark.parametrize("content", [b"", b"version https://git-lfs.github.com/spec/v1\n" * 5])
def test_an_empty_file_and_text_renamed_to_safetensors_are_refused(weights: Path, content: bytes) -> None:
    weights.write_bytes(content)
    with pytest.raises(ModelBrokenError, match="not a safetensors file"):
        read_shapes(weights)


def test_a_file_with_more_than_its_header_tells_of_is_refused(weights: Path) -> None:
    weights.write_bytes(weights.read_bytes() + b"x")
    with pytest.raises(ModelBrokenError, match="copy or download it again"):
        read_shapes(weights)


def test_offsets_that_contradict_the_shape_are_refused(tmp_path: Path) -> None:
    header = json.dumps({"a": {"dtype": "F32", "shape": [9], "data_offsets": [0, 4]}}).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"0000")
    with pytest.raises(ModelBrokenError, match="not a safetensors file"):
        read_shapes(path)


def test_shards_are_read_together_and_a_missing_one_is_named(tmp_path: Path) -> None:
    first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    save_file({"a": np.zeros(2, np.float32)}, tmp_path / first)
    save_file({"b": np.zeros(3, np.float32)}, tmp_path / second)
    index = {"weight_map": {"a": first, "b": second}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert read_all_shapes(tmp_path, "model") == {"a": (2,), "b": (3,)}
    (tmp_path / second).unlink()
    with pytest.raises(ModelBrokenError, match=second):
        read_all_shapes(tmp_path, "model")
