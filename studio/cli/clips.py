"""Which clips of an evaluation are asked for, and how they are printed: the page's list of errors."""

import argparse
import math
from collections.abc import Collection, Set
from dataclasses import dataclass
from typing import Any

from studio.cli.parsing import Parser, options_among
from studio.errors import ConfigError
from studio.evaluation.explorer import GROUPINGS, SHOWN, SORTS, Cell, Explorer, Query, cell_at
from studio.evaluation.metrics import align
from studio.evaluation.side_by_side import marked
from studio.units import counted, format_percent

_ROWS = 25
_ASKING = (
    "show",
    "sort",
    "search",
    "group",
    "said",
    "written",
    "errors_at",
    "errors_of",
    "compared_with",
    "rows",
)


def add_clip_options(parser: Parser) -> None:
    """Each of them lists clips; together, those that all of them ask for."""
    parser.option(
        "show",
        "List clips of a kind: lost, where the model makes more errors than the one compared with; gained, "
        "where it makes fewer.",
        choices=SHOWN,
    )
    parser.option("sort", "Order of the clips (default: worst).", choices=SORTS)
    parser.option("search", "Only clips with this in the reference or in a text.")
    parser.option(
        "group", f"Only clips of one group, such as speaker=anna; groups are by {', '.join(GROUPINGS)}."
    )
    parser.option("said", 'Only clips in which this word is wrong; "" for inserted words.')
    parser.option("written", 'Only clips in which this word is written wrongly; "" for deleted words.')
    parser.option(
        "errors_at",
        "Only clips at one dot of the page's figure of two models: percent of errors of the one compared "
        "with, and of the other, such as 20,45.",
        kind=_cell,
    )
    parser.option("errors_of", "Model whose errors count (default: the last).")
    parser.option("compared_with", "Model that it is compared with (default: the first).")
    parser.option("rows", f"List so many clips at most (default: {_ROWS}).", kind=_row_count)


def asks_for_clips(named: Set[str]) -> bool:
    """Whether one of the options is among those that are given."""
    return not named.isdisjoint(_ASKING)


def refuse_clip_options(named: Set[str], option: str) -> None:
    """Raises ConfigError: if clips are asked for; with `option`, there are none to list."""
    if asked := options_among(_ASKING, named):
        raise ConfigError(
            "With {option}, there are no clips to list: leave out {asked}.", option=option, asked=asked
        )


@dataclass(frozen=True)
class ListedClips:
    """Clips that were asked for."""

    explorer: Explorer
    places: list[int]
    """Of those that are listed, in the order that is asked for."""
    found: int
    """How many there are."""

    def to_text(self) -> str:
        """Of each its line, what was said, and what each model wrote."""
        explorer = self.explorer
        told = f"{self.found:,} of {counted(len(explorer.clips), 'clip')}"
        lines = [told if self.found == len(self.places) else f"{told}, {len(self.places):,} are listed"]
        for place in self.places:
            clip = explorer.clips[place]
            about = (clip.audio_path, str(clip.place), f"{clip.duration_seconds:.1f} s")
            lines += ["", "# " + " · ".join(filter(None, (*about, clip.speaker, clip.language)))]
            lines.append(f"  {clip.reference or '(no speech)'}")
            for model, texts in enumerate(explorer.texts):
                rate = format_percent(explorer.rate(model, place))
                sure = explorer.confidences[model][place]
                told = rate if math.isnan(sure) else f"{rate}, {format_percent(sure)} sure"
                written = marked(align(clip.reference, texts[place]))
                lines.append(f"  {explorer.models[model]} ({told}): {written}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """How many there are, and the rows of `utterances`: those that are listed, and no others."""
        count, rows = len(self.explorer.models), self.explorer.evaluation.utterances
        return {
            "clips": {"found": self.found, "of": len(self.explorer.clips)},
            "utterances": [
                dict(vars(rows[place * count + n])) for place in self.places for n in range(count)
            ],
        }


def listed_clips(given: argparse.Namespace, explorer: Explorer, corrected: Collection[int]) -> ListedClips:
    """What all options together ask for; of the clips in `corrected`, the reference was corrected.

    Raises:
        ConfigError: if there is no such model or group.
    """
    by, group = _group(given.group, explorer) if given.group is not None else ("", "")
    is_word = given.said is not None or given.written is not None
    query = Query(
        _model(given.errors_of, explorer, len(explorer.models) - 1),
        _model(given.compared_with, explorer, 0),
        given.show or "all",
        given.sort or "worst",
        by,
        group,
        given.search or "",
        (given.said, given.written) if is_word else None,
        given.errors_at,
        corrected=corrected,
    )
    places = explorer.select(query)
    return ListedClips(explorer, places[: given.rows or _ROWS].tolist(), len(places))


def _row_count(given: str) -> int:
    if (count := int(given)) < 1:
        raise ConfigError("{name} must be at least {low}, got {value}.", name="rows", low=1, value=count)
    return count


def _cell(given: str) -> Cell:
    x, _, y = given.partition(",")
    try:
        return cell_at(float(x), float(y))
    except (ValueError, OverflowError) as error:
        raise ConfigError(
            "errors_at takes two shares in percent, such as 20,45; got {value!r}.", value=given
        ) from error


def _model(name: str | None, explorer: Explorer, usual: int) -> int:
    if name is None:
        return usual
    if name not in explorer.models:
        raise ConfigError(
            "There is no model {name} in this evaluation: name one of {known}.",
            name=name,
            known=", ".join(explorer.models),
        )
    return explorer.models.index(name)


def _group(given: str, explorer: Explorer) -> tuple[str, str]:
    by, _, group = given.partition("=")
    if by not in explorer.groupings:
        raise ConfigError(
            "The clips are in no groups by {by!r}: choose one of {known}.",
            by=by,
            known=", ".join(explorer.groupings) or "–",
        )
    known = [one.key for one in explorer.groups(by, 0)]
    if group not in known:
        raise ConfigError(
            "No clip is in the group {group!r} by {by}: choose one of {known}.",
            group=group,
            by=by,
            known=", ".join(known[:_ROWS]),
        )
    return by, group
