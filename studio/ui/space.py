"""What a Space says of itself: its limits before they bite, and the way to one of one's own."""

import gradio as gr

from studio.runs.confinement import (
    LARGEST_DOWNLOAD_OF_STRANGERS,
    LONGEST_RECORDING_OF_STRANGERS,
    MOST_ROWS_OF_STRANGERS,
)
from studio.serving.uploads import UPLOADS_KEPT_SECONDS
from studio.serving.waiting import AT_ONCE
from studio.settings import Settings
from studio.ui.shared.i18n import _
from studio.units import GIB


def build_space_line(settings: Settings) -> None:
    """One line under the header; the limits are those of strangers, a Space that trains has none of them."""
    with gr.Row(elem_id="studio-space", equal_height=True):
        if settings.is_public:
            gr.HTML(
                _(
                    "A shared Space: recordings of up to {minutes:.0f} min and {size:g} MB, models of up to "
                    "{model:.0f} GiB, {rows} rows of a dataset. {count} visitors are served at a time, "
                    "uploads are deleted after {kept:.0f} min, and training is off.",
                    minutes=LONGEST_RECORDING_OF_STRANGERS / 60,
                    size=settings.max_upload_mb,
                    model=LARGEST_DOWNLOAD_OF_STRANGERS / GIB,
                    rows=MOST_ROWS_OF_STRANGERS,
                    count=AT_ONCE,
                    kept=UPLOADS_KEPT_SECONDS / 60,
                ),
                elem_id="studio-limits",
                scale=1,
            )
        gr.DuplicateButton(_("Duplicate this Space"))  # type: ignore[arg-type]
