"""A run is refused in one sentence, whoever starts it, before there is any."""

import re
from collections.abc import Callable

import gradio
import pytest

from studio.cli import train
from studio.errors import ManifestError
from studio.options.arguments import config_to_dict
from studio.options.training import TrainingConfig
from studio.services import Services
from studio.settings import Settings
from studio.ui.api.endpoints import Endpoints
from studio.ui.train.run_panel import Answers
from studio.ui.train.runs import _starter

GONE = "/nowhere/list.jsonl"
PAGE = {**config_to_dict(TrainingConfig()), "train_data": GONE}
WAYS: dict[str, Callable[[Services], object]] = {
    "page": lambda services: _starter(services, {})({}, Answers(), gradio.Request(), **PAGE),
    "program": lambda services: Endpoints(services).start_run({"train_data": GONE}),
    "command": lambda services: train.run(["--train_data", GONE, "--no_wait"], services.settings),
}


@pytest.fixture
def services(settings: Settings) -> Services:
    return Services.open(settings)


@pytest.mark.parametrize("way", WAYS)
def test_a_list_that_is_not_there_is_refused_and_nothing_is_queued(way: str, services: Services) -> None:
    with pytest.raises(ManifestError, match=re.escape(f"There is no manifest {GONE}")):
        WAYS[way](services)
    assert not services.jobs.count()
