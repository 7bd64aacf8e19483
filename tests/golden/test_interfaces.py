"""What scripts, programs and assistants call: flags of every command, functions of the page, tools."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from studio.cli.main import COMMANDS, command
from studio.options.arguments import (
    config_from_dict,
    config_to_dict,
    read_config,
    training_flags,
    write_yaml,
)
from studio.options.training import TrainingConfig
from tests.app.test_mcp import HAS_MCP, talk
from tests.event_loop import run_in_loop
from tests.golden.conftest import Golden
from tests.studio_process import StudioProcess


def flags_of(parser: argparse.ArgumentParser) -> list[dict[str, Any]]:
    return [
        {
            "flags": action.option_strings or action.dest,
            "default": str(action.default),
            **({"choices": list(action.choices)} if action.choices else {}),
            **({"nargs": action.nargs} if action.nargs else {}),
            **({"is_hidden": True} if action.help == argparse.SUPPRESS else {}),
        }
        for action in parser._actions
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_flags_of_a_command_are_those_of_before(golden: Golden, name: str) -> None:
    golden(f"flags_{name}", flags_of(command(name).parser()))


def test_the_options_of_a_run_are_those_of_before_under_every_name(golden: Golden) -> None:
    golden(
        "flags_of_a_run", {"flags": sorted(training_flags()), "defaults": config_to_dict(TrainingConfig())}
    )


def test_settings_come_back_from_yaml_and_json_as_they_were(golden: Golden, tmp_path: Any) -> None:
    changed = replace(
        TrainingConfig(base_model="tiny", train_data="mine: 'a'.jsonl"),
        lora_r=24,
        target_modules=("q_proj", "fc1"),
        learning_rate=3e-5,
        language="zh",
        speed_prob=0.5,
        max_steps=7,
        gradient_checkpointing=True,
        run_name="0123",
    )
    text = write_yaml(changed)
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    assert read_config(tmp_path / "mine.yaml") == changed == config_from_dict(config_to_dict(changed))
    golden("settings", {"yaml": text.splitlines(), "json": config_to_dict(changed)})


def test_functions_for_programs_and_tools_for_assistants_are_those_of_before(
    golden: Golden, start_studio: Callable[..., StudioProcess]
) -> None:
    studio = start_studio(extra={"STUDIO_MCP": "1"} if HAS_MCP else {})
    functions = httpx.get(f"{studio.url}/gradio_api/info", timeout=60).json()["named_endpoints"]
    told = ("description", "parameters", "returns")
    for each in (each for one in functions.values() for each in (*one["parameters"], *one["returns"])):
        if each["label"].startswith(("parameter_", "value_")):
            del each["label"]  # a number that Gradio counted
    golden("api", {name: {key: one[key] for key in told if key in one} for name, one in functions.items()})
    if HAS_MCP:
        tools, _ = run_in_loop(talk(studio.url, []))
        named = {name: tools[name].model_dump(exclude_none=True) for name in sorted(tools)}
        golden("tools", named)
