"""The registry: what is on the disk is what is listed."""

import json
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from studio.errors import (
    AdapterMismatchError,
    ConfigError,
    HubUnreachableError,
    ModelBrokenError,
    ModelInUseError,
    ModelNotFoundError,
)
from studio.messages import Message
from studio.publishing.formats import exports_of
from studio.registry.catalog import RELEASED
from studio.registry.spec import CARD_FILE, ModelDimensions, ModelKind, ModelSource, ModelSpec
from studio.registry.store import DEMO_ID, ModelRegistry
from studio.registry.validate import check_adapter
from studio.settings import DEMO_MODEL
from studio.translation import said
from tests.unit.registry.conftest import SMALL, make_adapter, make_whisper, write_json

WIDE = ModelDimensions(24, 2, 1, 2, 2, 48, 48, 60, max_source_positions=30, max_target_positions=20)
TINY_IN_CACHE = "models--openai--whisper-tiny/snapshots/1f"


def ids(registry: ModelRegistry) -> list[str]:
    released = {model.id for model in RELEASED}
    return [spec.id for spec in registry.all() if spec.id not in released]


def cache_snapshot(cache: Path, hub_id: str) -> Path:
    """The folder of a snapshot in the layout of the Hugging Face cache, not made yet."""
    folder = cache / f"models--{hub_id.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc123")
    return folder / "snapshots" / "abc123"


def test_a_new_studio_lists_the_demo_and_every_released_model(registry: ModelRegistry) -> None:
    demo, *released = registry.all()
    assert (demo.id, demo.source, demo.is_local) == (DEMO_ID, ModelSource.DEMO, True)
    assert [spec.id for spec in released] == [model.id for model in RELEASED]
    assert not any(spec.problem for spec in (demo, *released))


def test_a_folder_put_there_is_listed_and_gone_once_deleted(registry: ModelRegistry) -> None:
    folder = make_whisper(registry.models / "mine")
    assert ids(registry) == [DEMO_ID, "mine"]
    spec = registry.get("mine")
    assert (spec.kind, spec.source, spec.dimensions) == (ModelKind.BASE, ModelSource.LOCAL, SMALL)
    assert registry.get(str(folder)).id == "mine", "by its path, too"
    assert spec.size_bytes == sum(path.stat().st_size for path in folder.iterdir())
    shutil.rmtree(folder)
    assert ids(registry) == [DEMO_ID]


def test_a_file_changed_in_place_is_noticed(registry: ModelRegistry) -> None:
    folder = make_whisper(registry.models / "mine")
    assert registry.get("mine").is_local
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    assert "model.safetensors is cut short" in str(registry.get("mine").problem)
    assert not registry.get("mine").is_local


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("config.json", None, "neither config.json nor adapter_config.json"),
        ("config.json", "{half", "config.json cannot be read as JSON"),
        ("config.json", "[]", "config.json holds no JSON object"),
        ("config.json", {"model_type": "bert"}, "of type 'bert'"),
        ("config.json", {"d_model": None}, "config.json has d_model=None"),
        ("config.json", {"vocab_size": 61}, "weights do not belong to config.json"),
        ("model.safetensors", None, "model.safetensors is missing"),
        ("model.safetensors", "pytorch_model.bin", "pytorch_model.bin is a pickle"),
        ("tokenizer.json", None, "tokenizer.json is missing"),
        ("tokenizer.json", '{"model": {"a": 1', "tokenizer.json cannot be read as JSON"),
        ("tokenizer.json", "", "tokenizer.json cannot be read as JSON"),
        ("preprocessor_config.json", None, "preprocessor_config.json is missing"),
        ("model.json", "{half", "model.json cannot be read as JSON"),
    ],
)
def test_a_broken_folder_is_listed_with_what_is_wrong(
    registry: ModelRegistry, file: str, content: str | dict[str, object] | None, problem: str
) -> None:
    path = make_whisper(registry.models / "broken") / file
    if content is None:
        path.unlink()
    elif isinstance(content, dict):
        config = json.loads(path.read_text()) | content
        write_json(path, {key: value for key, value in config.items() if value is not None})
    elif file == "model.safetensors":
        path.rename(path.with_name(content))
    else:
        path.write_text(content)
    assert problem in str(registry.get("broken").problem)
    assert ids(registry) == [DEMO_ID, "broken"]
    with pytest.raises(ModelBrokenError, match="broken cannot be used"):
        registry.local_path("broken")


def test_a_broken_folder_is_what_its_card_says(registry: ModelRegistry) -> None:
    folder = make_whisper(registry.models / "merged")
    write_json(folder / "model.json", {"schema_version": 1, "kind": "merged"})
    (folder / "tokenizer.json").write_text("{")
    spec = registry.get("merged")
    assert spec.problem and spec.kind is ModelKind.MERGED
    write_json(folder / "model.json", {"schema_version": 1, "kind": ["merged"]})
    assert registry.get("merged").kind is ModelKind.BASE


def test_a_folder_that_is_closed_to_this_user_hides_nothing(
    registry: ModelRegistry, tmp_path: Path, close: Callable[[Path], None]
) -> None:
    for folder in (registry.models / "mine", registry.models / "closed", tmp_path / "shut" / "mine"):
        make_whisper(folder)
    make_adapter(registry.models / "tuned", str(tmp_path / "shut" / "mine"))
    make_whisper(cache_snapshot(tmp_path / "hub", "openai/whisper-base"))
    for folder in (
        registry.models / "closed",
        tmp_path / "shut",
        tmp_path / "hub/models--openai--whisper-base",
    ):
        close(folder)
    assert set(ids(registry)) == {DEMO_ID, "mine", "tuned", "closed"}
    assert registry.get("mine").problem is None
    assert str(registry.get("closed").problem) == "closed cannot be read (Permission denied)."
    assert (registry.get("tuned").base_model, registry.get("tuned").problem) == ("mine", None)
    assert registry.get("base").source is ModelSource.RELEASED
    with pytest.raises(ModelNotFoundError, match="There is no model"):
        registry.get(str(tmp_path / "shut" / "mine"))


def test_an_empty_folder_is_listed_and_a_hidden_one_is_not(registry: ModelRegistry) -> None:
    (registry.models / "empty").mkdir(parents=True)
    (registry.models / ".staged-abc").mkdir()
    (registry.models / "notes.txt").write_text("not a model")
    assert ids(registry) == [DEMO_ID, "empty"]
    assert registry.get("empty").problem


def test_a_folder_named_like_the_demo_model_keeps_its_own_row(registry: ModelRegistry) -> None:
    folder = make_whisper(registry.models / DEMO_ID)
    assert ids(registry) == [DEMO_ID, str(folder)]
    assert registry.get(DEMO_ID).source is ModelSource.DEMO


def test_the_newest_model_is_listed_first(registry: ModelRegistry) -> None:
    for name, created in (("old", "2024-01-01T00:00:00"), ("new", "2026-01-01T00:00:00")):
        make_whisper(registry.models / name, card={"created": created, "title": f"The {name} one"})
    assert ids(registry) == [DEMO_ID, "new", "old"]
    assert registry.get("new").title == "new"
    assert registry.get("new").source is ModelSource.TRAINED


@pytest.mark.parametrize("created", ["in May", "0001-01-01", 7, None])
def test_a_card_that_tells_no_time_gives_way_to_the_time_of_its_files(
    registry: ModelRegistry, created: object
) -> None:
    made = make_whisper(registry.models / "mine", card={"created": created})
    begun = datetime.fromisoformat(registry.get("mine").created).timestamp()
    assert abs(begun - made.stat().st_mtime) < 60


def test_folders_that_come_and_go_while_we_list_do_no_harm(registry: ModelRegistry) -> None:
    stop = threading.Event()

    def list_all() -> int:
        count = 0
        while not stop.is_set():
            registry.all()
            count += 1
        return count

    with ThreadPoolExecutor(2) as readers:
        futures = [readers.submit(list_all) for _ in range(2)]
        for number in range(20):
            make_whisper(registry.models / f"model-{number}")
            registry.remove(f"model-{number}")
        stop.set()
        assert all(future.result() > 0 for future in futures)


def test_a_downloaded_whisper_takes_the_place_of_the_released_one(
    registry: ModelRegistry, tmp_path: Path
) -> None:
    snapshot = make_whisper(cache_snapshot(tmp_path / "hub", "openai/whisper-base"))
    spec = registry.get("base")
    assert (spec.id, spec.source) == ("openai/whisper-base", ModelSource.DOWNLOADED)
    assert spec.title == "Whisper base"
    assert registry.local_path("base") == snapshot
    assert [row.id for row in registry.all()].count("openai/whisper-base") == 1


def test_other_models_of_the_cache_are_not_listed(registry: ModelRegistry, tmp_path: Path) -> None:
    make_whisper(cache_snapshot(tmp_path / "hub", "someone/whisper-of-mine"))
    bert = make_whisper(cache_snapshot(tmp_path / "hub", "someone/bert"))
    write_json(bert / "config.json", {"model_type": "bert"})
    config_only = make_whisper(cache_snapshot(tmp_path / "hub", "openai/whisper-small"))
    (config_only / "model.safetensors").unlink()
    assert ids(registry) == [DEMO_ID, "someone/whisper-of-mine"]
    assert registry.get("small").source is ModelSource.RELEASED


def test_any_folder_is_accepted_by_its_path(registry: ModelRegistry, tmp_path: Path) -> None:
    folder = make_whisper(tmp_path / "elsewhere" / "my model")
    spec = registry.get(str(folder))
    assert (spec.id, spec.source, spec.path) == (str(folder), ModelSource.LOCAL, folder)
    assert registry.local_path(str(folder)) == folder


def test_an_unknown_hub_id_is_a_row_that_is_not_on_this_disk(registry: ModelRegistry) -> None:
    spec = registry.get("someone/whisper-of-theirs")
    assert spec == ModelSpec(spec.id, ModelKind.BASE, ModelSource.RELEASED, "someone/whisper-of-theirs")
    assert not spec.is_local


def test_an_unknown_name_is_answered_with_the_nearest(registry: ModelRegistry) -> None:
    for name, answer in (
        ("large-v3-tubro", "large-v3-turbo"),
        ("/no/such/folder", "a folder that exists"),
        (__file__, "is a file"),
    ):
        with pytest.raises(ModelNotFoundError, match=answer):
            registry.get(name)


def test_a_model_not_here_is_refused_in_one_sentence_if_it_cannot_be_fetched(registry: ModelRegistry) -> None:
    with pytest.raises(ModelNotFoundError, match="downloads are switched off"):
        registry.local_path("tiny", local_files_only=True)
    with pytest.raises(HubUnreachableError, match="openai/whisper-tiny is not on this disk"):
        registry.local_path("tiny")


def test_an_adapter_has_the_dimensions_of_its_base(registry: ModelRegistry) -> None:
    make_whisper(registry.models / "base-one")
    make_adapter(registry.models / "tuned", "base-one")
    spec = registry.get("tuned")
    assert (spec.kind, spec.base_model) == (ModelKind.ADAPTER, "base-one")
    assert (spec.dimensions, spec.problem) == (SMALL, None)
    assert [row.id for row in registry.adapters_of("base-one")] == ["tuned"]
    assert registry.local_path("tuned") == registry.models / "tuned"


@pytest.mark.parametrize(
    ("saved", "card", "base"),
    [
        pytest.param("/old/home/assets/whisper", {"base_model": DEMO_ID}, DEMO_ID, id="by the card"),
        pytest.param("/home/me/models/base-one", None, "base-one", id="by its folder"),
        pytest.param("C:\\Users\\me\\models\\base-one", None, "base-one", id="by its folder on Windows"),
        pytest.param("models/base-one", None, "base-one", id="by its folder, from the home"),
        pytest.param("./base-one", None, "base-one", id="by its folder, from the one above"),
        pytest.param(f"/home/me/.cache/hub/{TINY_IN_CACHE}", None, "openai/whisper-tiny", id="by its Hub id"),
    ],
)
def test_a_base_that_has_moved_is_known_all_the_same(
    registry: ModelRegistry, saved: str, card: dict[str, str] | None, base: str
) -> None:
    make_whisper(registry.models / "base-one")
    dimensions = RELEASED[0].dimensions if base == "openai/whisper-tiny" else SMALL
    make_adapter(registry.models / "tuned", saved, dimensions, card=card)
    spec = registry.get("tuned")
    assert (spec.base_model, spec.problem, spec.is_local) == (base, None, True)


@pytest.mark.parametrize("base", ["gone", "/home/me/models/gone", None])
def test_an_adapter_without_its_base_is_listed_with_that(registry: ModelRegistry, base: str | None) -> None:
    make_adapter(registry.models / "tuned", base)
    assert "base" in str(registry.get("tuned").problem)
    with pytest.raises(ModelBrokenError, match="tuned cannot be used"):
        registry.local_path("tuned")


def test_an_adapter_of_another_base_is_refused(registry: ModelRegistry) -> None:
    make_whisper(registry.models / "wide", WIDE)
    folder = make_adapter(registry.models / "tuned", "wide")
    assert "belongs to another base model" in str(registry.get("tuned").problem)
    with pytest.raises(AdapterMismatchError, match="16 wide"):
        registry.local_path("tuned")
    check_adapter(folder, SMALL)
    for other, reason in ((WIDE, "24 wide"), (replace(SMALL, encoder_layers=1), "layer 1")):
        with pytest.raises(AdapterMismatchError, match=reason):
            check_adapter(folder, other)


def test_a_pickled_adapter_is_refused_with_the_reason(registry: ModelRegistry) -> None:
    folder = make_adapter(registry.models / "tuned", DEMO_ID)
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    assert registry.get("tuned").kind is ModelKind.ADAPTER
    assert "loading a pickle can run any program" in str(registry.get("tuned").problem)


def test_a_ctranslate2_export_is_known_by_its_vocabulary_and_has_its_bases_dimensions(
    registry: ModelRegistry,
) -> None:
    folder = registry.models / "exported"
    folder.mkdir(parents=True)
    (folder / "model.bin").write_bytes(b"weights")
    assert "no vocabulary beside it" in str(registry.get("exported").problem)
    write_json(folder / "vocabulary.json", [])
    assert "tokenizer.json is missing" in str(registry.get("exported").problem)
    (folder / "tokenizer.json").write_text("{half")
    assert "tokenizer.json cannot be read as JSON" in str(registry.get("exported").problem)
    write_json(folder / "tokenizer.json", {})
    write_json(folder / "model.json", {"base_model": DEMO_ID, "weights_bytes": 7})
    spec = registry.get("exported")
    assert (spec.kind, spec.dimensions, spec.problem) == (ModelKind.EXPORT, SMALL, None)
    (folder / "model.bin").write_bytes(b"weigh")
    assert "model.bin is cut short (5 of 7 bytes)" in str(registry.get("exported").problem)
    (folder / "model.bin").write_bytes(b"weights")
    write_json(folder / "config.json", {"suppress_ids": [1, 2]})
    assert registry.get("exported").problem is None
    for name in ("config.json", "model.json"):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[: len(whole) // 2])
        assert f"{name} cannot be read as JSON" in str(registry.get("exported").problem)
        assert [row.problem is None for row in registry.all() if row.id == "exported"] == [False]
        (folder / name).write_bytes(whole)


def test_a_file_that_is_cut_off_behind_an_inner_bracket_is_not_whole(registry: ModelRegistry) -> None:
    staged = make_whisper(registry.models / ".staged")
    (staged / "tokenizer.json").write_text('{"model": {"vocab": {"a": 1}}, "added_tokens": []}')
    made = registry.add("mine", staged, {"kind": "merged"})
    assert made.problem is None and made.path is not None
    (made.path / "tokenizer.json").write_text('{"model": {"vocab": {"a": 1}}, "added_tokens": [], "more": 1}')
    assert registry.get("mine").problem is None, "somebody may add something"
    (made.path / "tokenizer.json").write_text('{"model": {"vocab": {"a": 1}')
    assert "tokenizer.json is cut short (28 of 50 bytes)" in str(registry.get("mine").problem)


def test_a_file_that_is_cut_off_at_any_byte_is_named(registry: ModelRegistry) -> None:
    shutil.copytree(DEMO_MODEL, staged := registry.models / ".staged")
    folder = registry.add("mine", staged, {"kind": "merged"}).path
    assert folder is not None
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        if path.name in ("README.md", CARD_FILE):  # the card: in a test of its own
            continue
        lengths = {0, 1, len(whole) // 2, *range(max(0, len(whole) - 300), len(whole))}
        for length in (length for length in lengths if whole[length:].strip()):
            path.write_bytes(whole[:length])
            assert path.name in str(registry.get("mine").problem), f"{path.name}: {length} bytes"
        path.write_bytes(whole)
    assert registry.get("mine").problem is None


def test_a_measurement_does_not_make_a_model_that_was_put_there_one_of_ours(registry: ModelRegistry) -> None:
    make_whisper(registry.models / "of-others")
    registry.annotate("of-others", {"forms": {"rows": []}})
    assert registry.get("of-others").source is ModelSource.LOCAL


def test_an_adapter_of_a_broken_base_says_so(registry: ModelRegistry) -> None:
    base = make_whisper(registry.models / "base-one")
    make_adapter(registry.models / "tuned", "base-one")
    (base / "tokenizer.json").unlink()
    assert "Its base model base-one cannot be used" in str(registry.get("tuned").problem)


def test_a_finished_folder_is_added_with_its_card(registry: ModelRegistry, tmp_path: Path) -> None:
    staged = make_adapter(tmp_path / "staged", "/some/path")
    card = {"kind": "adapter", "base_model": DEMO_ID, "metrics": {"wer": 0.1}}
    spec = registry.add("first-run", staged, card)
    assert (spec.id, spec.base_model, spec.card["metrics"]) == ("first-run", DEMO_ID, {"wer": 0.1})
    assert spec.card["schema_version"] == 1
    assert not staged.exists()
    assert spec.path == registry.models / "first-run"


def test_a_name_that_is_taken_gets_a_number(registry: ModelRegistry, tmp_path: Path) -> None:
    given, names = ("run", "run", "RUN", "demo", "tiny"), ["run", "run-2", "RUN-3", "demo-2", "tiny-2"]
    assert [registry.add(name, make_whisper(tmp_path / "staged"), {}).id for name in given] == names


def test_a_half_written_folder_is_not_added(registry: ModelRegistry, tmp_path: Path) -> None:
    staged = make_whisper(tmp_path / "staged")
    (staged / "model.safetensors").unlink()
    with pytest.raises(ModelBrokenError, match="was not kept"):
        registry.add("run", staged, {})
    assert ids(registry) == [DEMO_ID]
    assert staged.exists()


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "a/b", "../up", "a\\b", "a b", "x" * 81, "a\x00b", "a\nb"]
)
def test_a_name_that_leads_elsewhere_is_refused(registry: ModelRegistry, tmp_path: Path, name: str) -> None:
    staged = make_whisper(tmp_path / "staged")
    with pytest.raises(ConfigError, match="cannot be the name of a model"):
        registry.add(name, staged, {})
    registry.add("mine", staged, {})
    with pytest.raises(ConfigError, match="cannot be the name of a model"):
        registry.rename("mine", name if name.strip() == name else f"{name}/")
    assert ids(registry) == [DEMO_ID, "mine"]


def test_a_model_is_renamed_with_its_card_and_its_adapters_and_exports_follow(
    registry: ModelRegistry,
) -> None:
    make_whisper(registry.models / "base-one", card={"id": "base-one", "note": "kept"})
    make_adapter(registry.models / "tuned", str(registry.models / "base-one"))
    form = {"kind": "merged", "format": "merged", "base_model": "base-one"}
    for name, source in (("base-merged", "base-one"), ("tuned-merged", "tuned")):
        make_whisper(registry.models / name, card={**form, "source": source})
    spec = registry.rename("base-one", "普通话-1.0")
    assert (spec.id, spec.card["id"], spec.card["note"]) == ("普通话-1.0", "普通话-1.0", "kept")
    assert registry.get("tuned").base_model == "普通话-1.0"
    assert registry.get("tuned").is_local
    made = [(row.id, row.base_model) for row in exports_of(spec.id, registry.all())]
    assert made == [("base-merged", spec.id)]
    registry.rename("tuned", "mine")
    assert [row.id for row in exports_of("mine", registry.all())] == ["tuned-merged"]
    assert registry.get("tuned-merged").base_model == spec.id
    with pytest.raises(ModelNotFoundError):
        registry.get("base-one")
    registry.rename("mine", "ours")
    assert [registry.called_now(name) for name in ("tuned", "mine", "ours", "nobody's", DEMO_ID)] == [
        *("ours", "ours", "ours", "nobody's", DEMO_ID)
    ]
    make_whisper(registry.models / "tuned")
    assert registry.called_now("tuned") == "tuned", "whose name it is now"


def test_a_name_in_use_by_another_model_is_refused(registry: ModelRegistry) -> None:
    make_whisper(registry.models / "one")
    make_whisper(registry.models / "two")
    for taken in ("two", "Two", "demo", "tiny"):
        with pytest.raises(ConfigError, match="already"):
            registry.rename("one", taken)
    assert registry.rename("one", "ONE").id == "ONE"


def test_a_deleted_model_be_it_a_broken_one_leaves_nothing_behind(registry: ModelRegistry) -> None:
    make_whisper(registry.models / "mine")
    (registry.models / "not a model").mkdir()
    for name in ("mine", "not a model"):
        registry.remove(name)
    assert list(registry.models.iterdir()) == []
    assert ids(registry) == [DEMO_ID]


def test_deleting_a_linked_folder_deletes_the_link_only(registry: ModelRegistry, tmp_path: Path) -> None:
    folder = make_whisper(tmp_path / "elsewhere")
    registry.models.mkdir()
    (registry.models / "linked").symlink_to(folder)
    assert registry.get("linked").is_local
    registry.remove("linked")
    assert ids(registry) == [DEMO_ID]
    assert (folder / "model.safetensors").exists()


def test_a_link_to_itself_hides_nothing(registry: ModelRegistry) -> None:
    folder = make_whisper(registry.models / "mine")
    for place in (folder / "again", registry.models / "round"):
        place.symlink_to(place.name)
    assert ids(registry) == [DEMO_ID, "mine"]
    assert registry.get("mine").problem is None


def test_models_of_others_are_neither_renamed_nor_deleted(registry: ModelRegistry, tmp_path: Path) -> None:
    elsewhere = make_whisper(tmp_path / "elsewhere")
    make_whisper(cache_snapshot(tmp_path / "hub", "openai/whisper-base"))
    for model_id in (DEMO_ID, "base", "tiny", str(elsewhere), "someone/whisper"):
        with pytest.raises(ConfigError, match="does not belong to this studio"):
            registry.remove(model_id)
        with pytest.raises(ConfigError, match="does not belong to this studio"):
            registry.rename(model_id, "mine")
    assert elsewhere.exists()


def test_a_model_in_use_stays_with_the_reason(tmp_path: Path) -> None:
    used = {"tuned": Message("run {run} trains on it", run="mine")}
    registry = ModelRegistry(tmp_path / "models", demo=None, hf_cache=None, in_use=lambda: used)
    make_whisper(registry.models / "base-one")
    make_adapter(registry.models / "tuned", "base-one")
    with pytest.raises(ModelInUseError, match="tuned cannot be changed now: run mine trains on it") as caught:
        registry.remove("tuned")
    assert said(caught.value, "zh-CN") == "现在不能更改 tuned：训练 mine 正在使用它。"
    with pytest.raises(ModelInUseError, match="tuned"):
        registry.rename("base-one", "base-two")
    used.clear()
    with pytest.raises(ModelInUseError, match="base-one is the base of tuned: delete those first"):
        registry.remove("base-one")
    registry.remove("tuned")
    registry.remove("base-one")
    assert ids(registry) == []


def test_what_transformers_and_peft_save_is_accepted(tmp_path: Path) -> None:
    import torch
    from peft import AdaLoraConfig, LoraConfig, get_peft_model
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    special = {"pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0, "decoder_start_token_id": 1}
    config = WhisperConfig(**SMALL.__dict__, **special)
    torch.manual_seed(0)
    registry = ModelRegistry(tmp_path / "models", demo=None, hf_cache=None)
    WhisperForConditionalGeneration(config).save_pretrained(registry.models / "base-one")
    for name in ("tokenizer.json", "preprocessor_config.json"):
        (registry.models / "base-one" / name).write_text("{}")
    targets = ["q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"]
    configs = {
        "lora": LoraConfig(r=4, target_modules=targets),
        "dora": LoraConfig(r=4, target_modules=targets, use_dora=True),
        "adalora": AdaLoraConfig(init_r=4, target_r=2, total_step=10, target_modules=targets),
    }
    for name, adapter in configs.items():
        model = get_peft_model(WhisperForConditionalGeneration(config), adapter)
        model.save_pretrained(registry.models / name)
        (registry.models / name / "model.json").write_text('{"base_model": "base-one"}')
    problems = {spec.id: spec.problem for spec in registry.all() if spec.path}
    assert problems == dict.fromkeys(("base-one", *configs))
    for name in configs:
        with pytest.raises(AdapterMismatchError):
            check_adapter(registry.models / name, WIDE)


def test_the_real_whisper_tiny_is_recognised(registry: ModelRegistry, whisper_tiny: Path) -> None:
    spec = registry.get(str(whisper_tiny))
    assert spec.is_local and spec.is_multilingual and spec.dimensions == RELEASED[0].dimensions


def test_a_folder_that_holds_no_model_is_not_walked_through(
    registry: ModelRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "disk" / "deep" / "deeper").mkdir(parents=True)
    seen = []
    monkeypatch.setattr(
        Path, "stat", lambda path, _stat=Path.stat, **how: seen.append(path) or _stat(path, **how)
    )
    assert registry.get(str(tmp_path / "disk")).problem is not None
    assert not [path for path in seen if "deep" in path.parts]


@pytest.mark.parametrize("name", ["x" * 300, "~nobody-of-this-name/", "a\0b", "\ud800", "~a\0b", "~/a\n/\0"])
def test_names_that_no_file_can_have_are_refused_with_a_sentence(registry: ModelRegistry, name: str) -> None:
    with pytest.raises((ConfigError, ModelNotFoundError)) as caught:
        registry.get(name)
    assert str(caught.value).encode() and "\n" not in str(caught.value)


def test_json_without_an_end_and_shapes_without_a_bound_are_told_of_one_model(
    registry: ModelRegistry, tmp_path: Path
) -> None:
    make_whisper(tmp_path / "models" / "deep")
    (tmp_path / "models" / "deep" / "config.json").write_text("[" * 3000)
    make_whisper(tmp_path / "models" / "wide")
    header = b'{"a":{"dtype":"F32","shape":[1e999],"data_offsets":[0,0]}}'
    weights = tmp_path / "models" / "wide" / "model.safetensors"
    weights.write_bytes(len(header).to_bytes(8, "little") + header)
    assert "cannot be read as JSON" in str(registry.get("deep").problem)
    assert "is not a safetensors file" in str(registry.get("wide").problem)


def test_where_folders_are_not_taken_nothing_is_told_of_them(tmp_path: Path) -> None:
    make_whisper(tmp_path / "models" / "mine", SMALL)
    make_whisper(tmp_path / "owner" / "secret", SMALL)
    (tmp_path / "file").touch()
    registry = ModelRegistry(tmp_path / "models", demo=None, hf_cache=None, takes_folders=False)
    assert registry.get("mine").id == registry.get(str(tmp_path / "models" / "mine")).id == "mine"
    told = set()
    for name in ("owner/secret/", "owner", "file", "nothing"):
        with pytest.raises(ModelNotFoundError) as caught:
            registry.get(str(tmp_path / name))
        told.add(str(caught.value).replace(str(tmp_path / name), "…"))
    assert len(told) == 1 and "folder" not in told.pop()
    ways = [f"{tmp_path}/{through}/../models/mine" for through in ("owner", "nothing")]
    assert registry.has(ways[0]) == registry.has(ways[1])


@pytest.mark.parametrize("targets", ["(a+)+$", ".*.*.*.*q_proj", "(?:x{1,}y)*", "a*b*c*d*"])
def test_an_adapter_whose_expression_could_take_for_ever_is_not_asked(
    registry: ModelRegistry, tmp_path: Path, targets: str
) -> None:
    folder = tmp_path / "models" / "mine"
    make_adapter(folder, "demo")
    config = json.loads((folder / "adapter_config.json").read_text("utf-8"))
    write_json(folder / "adapter_config.json", {**config, "target_modules": targets})
    assert "could take for ever" in str(registry.get("mine").problem)
    write_json(folder / "adapter_config.json", {**config, "target_modules": ".*decoder.*(q_proj|v_proj)$"})
    assert "for ever" not in str(registry.get("mine").problem)


@pytest.mark.parametrize(("name", "value"), [("n_fft", 10**6), ("hop_length", 1), ("feature_size", 10**6)])
@pytest.mark.parametrize("is_nested", [False, True])
def test_features_that_no_whisper_has_are_refused_before_their_filters_are_made(
    registry: ModelRegistry, tmp_path: Path, name: str, value: int, is_nested: bool
) -> None:
    folder = tmp_path / "models" / "mine"
    make_whisper(folder, SMALL)
    told = {"feature_extractor": {name: value}} if is_nested else {name: value}
    write_json(folder / ("processor_config.json" if is_nested else "preprocessor_config.json"), told)
    assert f"has {name} {value}" in str(registry.get("mine").problem)


def test_a_model_that_brings_code_is_loaded_and_none_of_it_runs(demo_model: Path, tmp_path: Path) -> None:
    from studio.transcription.model_cache import ModelCache

    folder = tmp_path / "models" / "with-code"
    shutil.copytree(demo_model, folder)
    (folder / "own.py").write_text(f"open({str(tmp_path / 'it ran')!r}, 'w').close()\n", encoding="utf-8")
    for name in (
        "config.json",
        "generation_config.json",
        "preprocessor_config.json",
        "tokenizer_config.json",
    ):
        told = json.loads((folder / name).read_text()) if (folder / name).is_file() else {}
        kinds = ("AutoConfig", "AutoModelForSpeechSeq2Seq", "AutoFeatureExtractor", "AutoProcessor")
        own = {**dict.fromkeys(kinds, "own.Own"), "AutoTokenizer": ["own.Own", "own.Own"]}
        write_json(folder / name, {**told, "auto_map": own, "custom_generate": "own.Own"})
    (folder / "custom_generate").mkdir()
    shutil.copy(folder / "own.py", folder / "custom_generate" / "generate.py")
    cache = ModelCache(ModelRegistry(tmp_path / "models", demo=None, hf_cache=None), idle_seconds=300)
    with cache.lease("with-code") as engine:
        assert engine.languages
    cache.close()
    assert not (tmp_path / "it ran").exists()


@pytest.mark.parametrize(
    "name",
    [
        "https://huggingface.co/openai/whisper-large-v3-turbo",
        "https://huggingface.co/openai/whisper-large-v3-turbo/",
        "https://huggingface.co/openai/whisper-large-v3-turbo/tree/main",
        "huggingface.co/openai/whisper-large-v3-turbo?library=transformers",
        "http://www.hf.co/openai/whisper-large-v3-turbo",
        "hf.co/openai/whisper-large-v3-turbo#usage",
        "openai/whisper-large-v3-turbo/",
    ],
)
def test_a_model_is_known_by_its_address_on_the_hub(registry: ModelRegistry, name: str) -> None:
    assert registry.get(name).id == "openai/whisper-large-v3-turbo"


def test_other_addresses_are_no_models(registry: ModelRegistry) -> None:
    assert registry.get("https://huggingface.co/somebody/new-one").id == "somebody/new-one"
    for name in ("datasets/a/b", "spaces/a/b", "openai", "openai/whisper-tiny/tree/other"):
        assert not registry.has(f"https://huggingface.co/{name}")
    for name in ("/no-such-folder/", "https://example.org/openai/whisper-tiny"):
        assert not registry.has(name)
    folder = make_whisper(registry.models / "mine")
    assert registry.get(f"{folder}/").id == registry.get("mine/").id == "mine"
