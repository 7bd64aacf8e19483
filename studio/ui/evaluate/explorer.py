"""Where the errors are: figures and words that lead to clips; the clips, by pages, with their sound."""

import html
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import gradio as gr
from gradio.blocks import Block
from gradio.components.plot import PlotData

from studio.errors import DataError
from studio.evaluation.corrections import KeptCorrections, checked_reference, clip_of
from studio.evaluation.explorer import Explorer, Group, Query
from studio.evaluation.result import Evaluation
from studio.reports.evaluation_report import sound_address
from studio.reports.evaluation_views import (
    GROUPING_LABELS,
    SHOWN_LABELS,
    SORT_LABELS,
    asking,
    clip_table,
    words_view,
)
from studio.reports.markup import Child, Html, tag
from studio.reports.pieces import BLUE, VIOLET
from studio.transcription.captions import wrap
from studio.translation import N_, said, tr
from studio.ui.shared.charts import axis, figure
from studio.ui.shared.errors import told_in
from studio.ui.shared.following import EACH, LATEST
from studio.ui.shared.forms import choices_of
from studio.ui.shared.i18n import _, request_locale

_ON_LOAD = "explorer(element, trigger)"
"""See `assets/explorer.js`."""
PAGE = 25
"""Clips that are shown at a time."""
KEPT_SECONDS = 3600.0
"""An evaluation can be looked into for so long; then the studio forgets it."""
_ANY: dict[str, Any] = {"interactive": True, "allow_custom_value": True}
"""For choices that come with an evaluation: Gradio would refuse, in words of its own, those of a session that
was before this one. What there is, `Query` knows."""
_FIGURES = "#evaluate-groups, #evaluate-scatter"
"""A click in these is a question, too."""
_TICKS = (0, 25, 50, 75, 100)
"""Per cent at the axes of the scatter."""
_BARS = 30
"""Speakers, say, of whom there are more are in no figure."""


@dataclass(frozen=True)
class Seen:
    """What a visitor looks at, beside what the form says."""

    page: int = 0
    playing: int | None = None
    """The clip that is heard."""
    mistake: tuple[str | None, str | None] | None = None
    cell: tuple[int, int] | None = None
    corrected: Mapping[int, str] = field(default_factory=dict)
    """Clips whose reference the visitor has corrected, and what is said in them."""
    query: Query | None = None
    """What the list answers."""
    evaluation: "weakref.ref[Evaluation] | None" = None
    """To which the places of clips belong."""


@dataclass(frozen=True)
class ExplorerView:
    """Components of the explorer, in their order on the page."""

    section: gr.Column
    form: Mapping[str, gr.Dropdown | gr.Textbox]
    """What clips are asked for, under the names of a `Query`."""
    bars: gr.Plot
    scatter: gr.Plot
    words: gr.HTML
    clips: gr.HTML
    corrected: gr.HTML
    save: gr.Button
    """Shown, with what is `corrected`, while something is."""
    refused: gr.HTML
    explorer: gr.State
    seen: gr.State

    def all(self) -> list[Block]:
        """In the order in which `shown` gives them."""
        figures = [self.bars, self.scatter, self.words]
        return [self.section, *self.form.values(), *figures, *self.listed(), self.explorer]

    def listed(self) -> list[Block]:
        """What changes with each question."""
        return [self.clips, self.corrected, self.save, self.seen]


Keep = Callable[[Explorer, gr.Request], KeptCorrections | None]
"""Where what a visitor corrects is kept until it is saved; None: nowhere but in their session."""


def build_explorer(keep: Keep) -> ExplorerView:
    """The components, hidden until there is an evaluation, and what they do."""
    form: dict[str, gr.Dropdown | gr.Textbox] = {}
    with gr.Column(visible=False, elem_id="evaluate-explorer") as section:
        gr.Markdown(
            _("Where the errors are: click on a bar, a dot or a word to see its clips."), elem_classes="lead"
        )
        with gr.Row():
            form["model"] = gr.Dropdown([], label=_("Errors of"), min_width=180, **_ANY)
            form["against"] = gr.Dropdown([], label=_("Compared with"), min_width=180, **_ANY)
            form["by"] = gr.Dropdown([], label=_("In groups by"), elem_id="evaluate-by", **_ANY)
        with gr.Row():
            bars = gr.Plot(show_label=False, visible=False, min_width=300, elem_id="evaluate-groups")
            scatter = gr.Plot(show_label=False, visible=False, min_width=300, elem_id="evaluate-scatter")
        words = gr.HTML(elem_id="evaluate-words", js_on_load=_ON_LOAD)
        with gr.Row():
            shows, sorts = choices_of(SHOWN_LABELS), choices_of(SORT_LABELS)
            form["show"] = gr.Dropdown(
                shows, value="all", label=_("Show"), min_width=180, elem_id="evaluate-show"
            )
            form["group"] = gr.Dropdown([], label=_("Group"), elem_id="evaluate-group", **_ANY)
            form["sort"] = gr.Dropdown(
                sorts, value="worst", label=_("Order"), min_width=180, elem_id="evaluate-sort"
            )
            form["search"] = gr.Textbox(
                label=_("Search in the texts"), max_lines=1, elem_id="evaluate-search"
            )
        with gr.Row(elem_classes="corrections"):
            corrected = gr.HTML(visible=False, elem_id="evaluate-corrected", js_on_load=_ON_LOAD)
            save = gr.Button(
                _("Save as a new list"),
                visible=False,
                size="sm",
                scale=0,
                min_width=180,
                elem_id="evaluate-save",
            )
        refused = gr.HTML(elem_id="evaluate-refused")
        listed = gr.HTML(
            tag("div", data_figures=_FIGURES),
            elem_id="evaluate-utterances",
            js_on_load=_ON_LOAD,
        )
    explorer, seen = gr.State(None, time_to_live=KEPT_SECONDS), gr.State(Seen())
    view = ExplorerView(section, form, bars, scatter, words, listed, corrected, save, refused, explorer, seen)
    _wire(view, keep)
    return view


def _wire(view: ExplorerView, keep: Keep) -> None:
    held = {"explorer": view.explorer, "seen": view.seen}

    def follow(explorer: Explorer | None, seen: Seen, request: gr.Request, **form: Any) -> list[Any]:
        """Another question: its first page."""
        if explorer is None:
            return [gr.skip()] * len(view.listed())
        query = _query(explorer, form, seen := seen_of(explorer, seen))
        if query == seen.query:  # a form that was filled asks too, and so late that a clip may be played
            return [gr.skip()] * len(view.listed())
        return _list(explorer, query, replace(seen, page=0, playing=None), request_locale(request))

    def regroup(explorer: Explorer | None, request: gr.Request, **form: Any) -> list[Any]:
        """Another model, or other groups: figures and words."""
        if explorer is None:
            return [gr.skip()] * 4
        query = replace(_query(explorer, form, Seen()), group="")
        return _figures(explorer, query, request_locale(request))

    def answer(
        explorer: Explorer | None, seen: Seen, event: gr.EventData, request: gr.Request, **form: Any
    ) -> list[Any]:
        """Something was clicked."""
        explorer, asked = remembered(explorer), event._data["ask"]
        seen = seen_of(explorer, seen)
        before = seen.corrected
        seen, group = _asked(explorer, asked, seen)
        if seen.corrected is not before and (kept := keep(explorer, request)):
            _keep(kept, explorer, before, seen.corrected)
        if group is not None:
            form["group"] = group
        listed = _list(explorer, _query(explorer, form, seen), seen, request_locale(request))
        return [*listed, gr.skip() if group is None else group]

    form = view.form
    # A form that an evaluation fills asks nothing: all would be drawn once more for each of its fields.
    chosen = {name: component.input for name, component in form.items()}
    # But other groups let the chosen one go; and what is written is not there yet when `input` is told.
    asks = chosen | {name: form[name].change for name in ("group", "search")}
    told = told_in(view.refused, follow, view.listed())
    gr.on([*asks.values()], **told, inputs_kwargs={**held, **form}, **LATEST)
    told = told_in(view.refused, regroup, [view.bars, view.scatter, view.words, form["group"]])
    others, inputs = [chosen[name] for name in ("model", "against", "by")], {"explorer": view.explorer}
    gr.on(others, **told, inputs_kwargs={**inputs, **form}, **LATEST)
    told = told_in(view.refused, answer, [*view.listed(), form["group"]])
    for place in (view.words, view.clips, view.corrected):
        place.submit(**told, inputs_kwargs={**held, **form}, **EACH)


def _keep(
    kept: KeptCorrections, explorer: Explorer, before: Mapping[int, str], after: Mapping[int, str]
) -> None:
    """Notes what has changed."""
    for place in sorted(before.keys() | after.keys()):
        if before.get(place) != after.get(place):
            kept.put(clip_of(explorer.clips[place]), after.get(place))


def shown(explorer: Explorer | None, locale: str, seen: Seen | None = None) -> list[Any]:
    """What the components show of an evaluation: of a new one its last model against its first; what was
    asked last, and is in `seen` with what somebody has corrected, once more.
    """
    if explorer is None:
        return [gr.Column(visible=False), *[gr.skip()] * 13, Seen(), None]
    seen = replace(seen or Seen(), playing=None)
    names = list(zip(explorer.names, explorer.models, strict=True))
    is_pair = len(names) > 1
    first = Query(len(names) - 1, by=next(iter(explorer.groupings), ""))
    query = replace(seen.query or first, corrected=frozenset(seen.corrected))
    groupings = [(tr(GROUPING_LABELS[name], locale), name) for name in explorer.groupings]
    labels = {name: text for name, text in SHOWN_LABELS.items() if is_pair or name not in ("lost", "gained")}
    shows = [(tr(text, locale), name) for name, text in labels.items()]
    bars, scatter, words, group = _figures(explorer, query, locale)
    return [
        gr.Column(visible=True),
        gr.Dropdown(names, value=explorer.models[query.model], visible=is_pair),
        gr.Dropdown(names, value=explorer.models[query.against], visible=is_pair),
        gr.Dropdown(groupings, value=query.by or None, visible=bool(query.by)),
        gr.Dropdown(shows, value=query.show),
        group,
        gr.skip(),
        gr.Textbox(query.search),
        bars,
        scatter,
        words,
        *_list(explorer, query, seen, locale),
        explorer,
    ]


def remembered(explorer: Explorer | None) -> Explorer:
    """The evaluation that is looked into.

    Raises:
        DataError: if the studio has forgotten it.
    """
    if explorer is None:
        raise DataError("The studio does not hold this evaluation any more: evaluate again.")
    return explorer


def seen_of(explorer: Explorer, seen: Seen) -> Seen:
    """What a visitor looks at in an evaluation: nothing yet, where `seen` is of another. An answer about the
    one before may come after a new one is shown.
    """
    return seen if seen.evaluation and seen.evaluation() is explorer.evaluation else Seen()


def _query(explorer: Explorer, form: Mapping[str, Any], seen: Seen) -> Query:
    """The form's question. A choice that is left over from another evaluation, or not there yet in a form
    that is being filled, is that of `shown`: a click meanwhile asks the same, and is not undone afterwards.
    """
    place = {name: number for number, name in enumerate(explorer.models)}
    by = form["by"] if form["by"] in explorer.groupings else next(iter(explorer.groupings), "")
    return Query(
        place.get(form["model"], len(place) - 1),
        place.get(form["against"], 0),
        form["show"] or "all",
        form["sort"] or "worst",
        by,
        form["group"] or "",
        form["search"] or "",
        seen.mistake,
        seen.cell,
        frozenset(seen.corrected),
    )


def _asked(explorer: Explorer, asked: Mapping[str, Any], seen: Seen) -> tuple[Seen, str | None]:
    """What is looked at after a click, and the group that it chose, if it did."""
    if not isinstance(asked, dict):
        return seen, None
    if "page" in asked:
        return replace(seen, page=int(asked["page"]), playing=None), None
    if "play" in asked:
        place = int(asked["play"])
        return replace(seen, playing=place if 0 <= place < len(explorer.clips) else None), None
    if "correct" in asked:
        return _corrected(explorer, asked, seen), None
    seen = replace(seen, page=0, playing=None)
    if "said" in asked:
        return replace(seen, mistake=(asked["said"], asked["written"])), None
    if "cell" in asked:
        x, y = asked["cell"]
        return replace(seen, cell=(int(x), int(y))), None
    if asked.get("forget") == "mistake":
        return replace(seen, mistake=None), None
    if asked.get("forget") == "cell":
        return replace(seen, cell=None), None
    return seen, str(asked.get("group", ""))


def _corrected(explorer: Explorer, asked: Mapping[str, Any], seen: Seen) -> Seen:
    """What is looked at with references corrected, or corrections taken back, or all of them.

    Raises:
        DataError: if the text can be no reference, or there is no such clip.
    """
    if asked["correct"] == "nothing":
        return replace(seen, corrected={})
    corrected = {**seen.corrected}
    for place, text in asked["correct"]:
        if not 0 <= place < len(explorer.clips):
            raise DataError("There is no clip number {number} in this evaluation.", number=place + 1)
        clip = explorer.clips[place]
        corrected.pop(place, None)
        told = clip.reference if text is None else checked_reference(str(text), clip.line)
        if told != clip.reference and told != " ".join(clip.reference.split()):
            corrected[place] = told
    return replace(seen, corrected=corrected)


# ---------------------------------------------------------------------- what is drawn


def _list(explorer: Explorer, query: Query, seen: Seen, locale: str) -> list[Any]:
    """Values for `ExplorerView.listed`."""
    count = len(seen.corrected)
    text = N_("Corrected references: {count}. They are counted once they are saved.")
    back = asking(tr("Undo all corrections", locale), {"correct": "nothing"})
    told = tag("p", tr(text, locale, count=count), " ", back) if count else ""
    return [
        _listed(explorer, query, seen, locale),
        gr.HTML(told, visible=bool(count)),
        gr.Button(visible=bool(count)),
        replace(seen, query=query, evaluation=weakref.ref(explorer.evaluation)),
    ]


def _figures(explorer: Explorer, query: Query, locale: str) -> list[Any]:
    """Bars, scatter, words, and the groups to choose from."""
    groups = explorer.groups(query.by, query.model) if query.by else []
    few = sorted(groups, key=lambda group: -group.clips)[:_BARS]
    drawn = [group for group in groups if group in few]
    choices = [(tr("All", locale), ""), *((said(group.label, locale), group.key) for group in groups)]
    is_pair = query.model != query.against
    return [
        gr.Plot(_bars(drawn, tr(GROUPING_LABELS[query.by], locale), locale), visible=True)
        if drawn
        else gr.Plot(visible=False),
        gr.Plot(_scatter(explorer, query, locale), visible=True) if is_pair else gr.Plot(visible=False),
        words_view(explorer, query.model, locale),
        gr.Dropdown(choices, value=query.group, visible=bool(groups)),
    ]


def _bars(groups: Sequence[Group], title: str, locale: str) -> PlotData:
    bars = {
        "type": "bar",
        "x": [html.escape(said(group.label, locale), quote=False) for group in groups],
        "y": [group.rate for group in groups],
        "customdata": [{"group": group.key, "clips": group.clips} for group in groups],
        "marker": {"color": BLUE},
        "hovertemplate": f"%{{x}}: %{{y:.1%}} · %{{customdata.clips}} {tr('clips', locale)}<extra></extra>",
    }
    return figure(
        [bars],
        height=280,
        showlegend=False,
        xaxis=axis(title, type="category"),
        yaxis=axis(tr("Errors (MER)", locale), rangemode="tozero", tickformat=".0%"),
    )


def _scatter(explorer: Explorer, query: Query, locale: str) -> PlotData:
    """A dot for all clips in which both models have about as many errors, the larger the more there are."""
    cells = explorer.cells(query.model, query.against)
    most = max(count for _, count in cells)
    sizes = [8 + 28 * (count / most) ** 0.5 for _, count in cells]
    told = f"%{{x:.0%}} · %{{y:.0%}}: %{{customdata.clips}} {tr('clips', locale)}<extra></extra>"
    dots = {
        "type": "scatter",
        "mode": "markers",
        "x": [x / 100 for (x, _), _ in cells],
        "y": [y / 100 for (_, y), _ in cells],
        "customdata": [{"cell": cell, "clips": count} for cell, count in cells],
        "marker": {"color": VIOLET, "size": sizes, "opacity": 0.75},
        "hovertemplate": told,
    }
    alike = {"color": "rgba(128,140,150,0.5)", "dash": "dot"}
    ticks = {"tickvals": [share / 100 for share in _TICKS], "ticktext": [_share(share) for share in _TICKS]}
    across, up = (
        axis(_errors_of(name, locale), range=[-0.1, 1.12], **ticks)
        for name in (explorer.names[query.against], explorer.names[query.model])
    )
    line = {"type": "line", "x0": 0, "y0": 0, "x1": 1, "y1": 1, "line": alike}
    return figure([dots], height=280, showlegend=False, shapes=[line], xaxis=across, yaxis=up)


def _share(percent: int) -> str:
    """A share of errors as the scatter tells it: in its last cell are all clips from 100 % on."""
    return f"≥ {percent} %" if percent >= 100 else f"{percent} %"


def _errors_of(name: str, locale: str) -> str:
    """An axis's title in lines that the height of the figure has room for."""
    text = tr("{name}: {value}", locale, name=tr("Errors (MER)", locale), value=name)
    return "<br>".join(html.escape(line) for line in wrap(text, 30))


def _listed(explorer: Explorer, query: Query, seen: Seen, locale: str) -> Html:
    """A page of the clips that are asked for."""
    places = explorer.select(query).tolist()
    page = min(max(0, seen.page), max(0, len(places) - 1) // PAGE)
    of_page = places[page * PAGE : (page + 1) * PAGE]
    sounds = {place: sound_address(explorer.clips[place]) for place in of_page if place == seen.playing}
    told = tr("{count} of {total} clips", locale, count=f"{len(places):,}", total=f"{len(explorer.clips):,}")
    return tag(
        "div",
        tag(
            "div", tag("b", told), _only(query, locale), _pages(page, len(places), locale), class_="clip-bar"
        ),
        clip_table(explorer, of_page, locale, sounds, seen.corrected) if of_page else None,
        _pages(page, len(places), locale) if len(of_page) == PAGE else None,
        data_figures=_FIGURES,
        class_="clip-list",
    )


def _only(query: Query, locale: str) -> Child:
    """What was clicked, each to be taken back."""
    clicked: dict[str, Child] = {}
    if query.mistake:
        given, written = ("…" if word is None else word or "–" for word in query.mistake)
        clicked["mistake"] = [tag("bdi", given), " → ", tag("bdi", written)]
    if query.cell:
        clicked["cell"] = " · ".join(map(_share, query.cell))
    label = tr("Remove", locale)
    return [asking([text, " ✕"], {"forget": name}, title=label) for name, text in clicked.items()]


def _pages(page: int, count: int, locale: str) -> Child:
    last = max(0, count - 1) // PAGE
    if not last:
        return None
    text = tr("Page {page} of {pages}", locale, page=page + 1, pages=last + 1)
    return tag(
        "span",
        asking(tr("Previous page", locale), {"page": page - 1}, disabled=page == 0),
        text,
        asking(tr("Next page", locale), {"page": page + 1}, disabled=page == last),
        class_="pages",
    )
