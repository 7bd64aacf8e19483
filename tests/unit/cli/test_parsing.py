from contextlib import chdir
from pathlib import Path

import pytest

from studio.cli.parsing import Parser, snake_case, unknown_option
from studio.errors import ConfigError
from studio.units import names


@pytest.fixture
def parser() -> Parser:
    made = Parser("transcribe", "A command.")
    made.add_argument("audio", nargs="*")
    made.option("output_file", "A file.", aliases=("result_file",))
    made.option("num_beams", "A number.", kind=int, default=1)
    made.option("task", "A choice.", choices=("transcribe", "translate"))
    made.flag("json", "A switch.")
    made.flag("return_timestamps", "A switch that is on.", default=True)
    return made


@pytest.mark.parametrize(
    "arguments",
    [
        ["--output_file", "a.json"],
        ["--output-file", "a.json"],
        ["--output_file=a.json"],
        ["--result-file=a.json"],
    ],
)
def test_an_option_is_taken_in_each_spelling(parser: Parser, arguments: list[str]) -> None:
    assert parser.read(arguments).output_file == "a.json"


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (["--json"], True),
        (["--json=True"], True),
        (["--json", "True"], True),
        (["--json", "false"], False),
        (["--json=0"], False),
        (["--json", "0"], False),
        (["--json", "no", "a.wav"], False),
        (["--json", "Yes"], True),
        (["--json", "1"], True),
        *((["--json=off"], False), (["--json", "off", "a.wav"], False), (["--json", "on"], True)),
        ([], False),
    ],
)
def test_a_boolean_is_taken_in_three_spellings(parser: Parser, arguments: list[str], value: bool) -> None:
    assert parser.read(arguments).json is value


def test_a_boolean_does_not_swallow_the_recording_after_it(parser: Parser) -> None:
    given = parser.read(["--json", "a.wav", "--return-timestamps", "False", "b.wav"])
    assert given.json is True and given.return_timestamps is False
    assert given.audio == ["a.wav", "b.wav"]


def test_a_boolean_does_not_swallow_a_recording_that_is_called_like_its_value(
    parser: Parser, tmp_path: Path
) -> None:
    (tmp_path / "1").mkdir()
    with chdir(tmp_path):
        given = parser.read(["--json", "1", "--return_timestamps", "0", "yes"])
    assert (given.audio, given.json, given.return_timestamps) == (["1", "yes"], True, False)


def test_recordings_may_stand_between_options(parser: Parser) -> None:
    given = parser.read(["a.wav", "--num_beams", "2", "b.wav", "c.wav"])
    assert given.audio == ["a.wav", "b.wav", "c.wav"] and given.num_beams == 2


def test_an_unknown_option_is_answered_with_the_nearest(parser: Parser) -> None:
    with pytest.raises(ConfigError, match=r"--outptu_file: did you mean --output_file\?"):
        parser.read(["--outptu-file", "a.json"])


def test_an_abbreviation_is_not_guessed(parser: Parser) -> None:
    with pytest.raises(ConfigError, match="--output_file"):
        parser.read(["--output_fil", "a.json"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--num_beams", "many"], "many"),
        (["--num_beams"], "num_beams"),
        (["--task", "sing"], "translate"),
        (["--json=maybe"], "maybe"),
    ],
)
def test_a_value_that_cannot_be_used_is_quoted(parser: Parser, arguments: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parser.read(arguments)


def test_an_option_is_named_whatever_its_value_and_its_spelling(parser: Parser) -> None:
    assert parser.named([]) == parser.named(["a.wav"]) == set()
    words = ["--json", "False", "a.wav", "--num-beams=1", "--result_file", "b", "--return-timestamps"]
    assert parser.named(words) == {"json", "num_beams", "output_file", "return_timestamps"}


def test_what_another_parser_knows_is_handed_on_in_its_order() -> None:
    parser = Parser("train", "A command.")
    parser.flag("json", "A switch.")
    given, rest = parser.read_known(["--lora_r", "8", "--json", "--fp16"])
    assert given.json is True and rest == ["--lora_r", "8", "--fp16"]


def test_only_the_name_of_an_option_is_respelled() -> None:
    assert snake_case("--output-file=my-file.json") == "--output_file=my-file.json"
    assert snake_case("my-file.json") == "my-file.json"


def test_a_stray_option_without_a_neighbour_points_to_help() -> None:
    assert "--help" in str(unknown_option("--xyzzy", ["--json"]))


def test_names_are_separated_by_commas() -> None:
    assert names("a, b,,c") == ["a", "b", "c"]


def test_help_tells_the_default_unless_it_is_nothing_or_told_already(parser: Parser) -> None:
    parser.option("rows", "At most (default: all).", default="25")
    parser.option("rate", "Slowest.", kind=float, default=0.5)
    parser.option("search", "Only with this.", default="")
    parser.flag("words", "With words.", default=True)
    told = {argument.name: argument.text for argument in parser.arguments()}
    assert told["rate"] == "Slowest. Default: 0.5." and told["words"] == "With words. Default: True."
    assert told["rows"] == "At most (default: all)." and told["search"] == "Only with this."
