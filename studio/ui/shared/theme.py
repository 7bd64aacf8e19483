"""Colours and shapes of the page. Fonts are those of the system: the page needs no network."""

import gradio as gr
from gradio.themes import Base, Color

INK = Color(
    name="ink",
    c50="#f7f9fa",
    c100="#eef2f4",
    c200="#dde4e8",
    c300="#c2ccd3",
    c400="#8c9aa5",
    c500="#667580",
    c600="#4a5862",
    c700="#34414a",
    c800="#1d272f",
    c900="#141c22",
    c950="#0d1318",
)
TEAL = Color(
    name="teal",
    c50="#eefbf8",
    c100="#d3f4ec",
    c200="#a9e8da",
    c300="#72d5c3",
    c400="#3dbba8",
    c500="#1d9f8e",
    c600="#0f7f73",
    c700="#0f665e",
    c800="#11514c",
    c900="#12433f",
    c950="#042725",
)

_SANS = (
    *("system-ui", "-apple-system", "Segoe UI", "Roboto", "PingFang TC", "Microsoft JhengHei"),
    *("Noto Sans CJK TC", "Noto Sans", "sans-serif"),
)
_MONO = ("ui-monospace", "SFMono-Regular", "Consolas", "Liberation Mono", "monospace")


_VALUES = {
    "color_accent": "*primary_600",
    "block_border_width": "1px",
    "block_shadow": "none",
    "block_padding": "*spacing_lg *spacing_xl",
    "layout_gap": "*spacing_lg",
    "block_title_text_weight": "600",
    "input_border_width": "1px",
    "slider_color": "*primary_600",
}
_LIGHT_AND_DARK = {
    "body_background_fill": ("*neutral_50", "*neutral_950"),
    "body_text_color": ("*neutral_800", "*neutral_100"),
    "body_text_color_subdued": ("*neutral_600", "*neutral_300"),
    "background_fill_primary": ("white", "*neutral_900"),
    "background_fill_secondary": ("*neutral_50", "*neutral_800"),
    "border_color_primary": ("*neutral_200", "*neutral_700"),
    "block_background_fill": ("white", "*neutral_900"),
    "block_label_text_color": ("*neutral_700", "*neutral_200"),
    "block_title_text_color": ("*neutral_800", "*neutral_100"),
    "block_info_text_color": ("*neutral_600", "*neutral_300"),
    "input_background_fill": ("white", "*neutral_800"),
    "input_border_color": ("*neutral_300", "*neutral_700"),
    "input_placeholder_color": ("*neutral_500", "*neutral_400"),
    "button_primary_background_fill": ("*primary_600", "*primary_600"),
    "button_primary_background_fill_hover": ("*primary_700", "*primary_700"),
    "button_primary_text_color": ("white", "white"),
    "button_secondary_background_fill": ("*neutral_100", "*neutral_700"),
    "button_secondary_background_fill_hover": ("*neutral_200", "*neutral_600"),
    "button_secondary_text_color": ("*neutral_800", "*neutral_50"),
    "button_cancel_background_fill": ("#b42318", "#b42318"),
    "button_cancel_background_fill_hover": ("#912018", "#912018"),
    "button_cancel_text_color": ("white", "white"),
    "link_text_color": ("*primary_700", "*primary_300"),
    "checkbox_background_color_selected": ("*primary_600", "*primary_600"),
    "checkbox_border_color_selected": ("*primary_600", "*primary_500"),
    "checkbox_label_background_fill_selected": ("*primary_50", "*primary_900"),
    "checkbox_label_border_color_selected": ("*primary_600", "*primary_400"),
    "checkbox_label_text_color_selected": ("*primary_900", "*primary_50"),
}


def studio_theme() -> gr.Theme:
    """Teal on quiet greys; every pair of text and ground has a contrast of 4.5 or more."""
    theme: gr.Theme = Base(
        primary_hue=TEAL,
        secondary_hue=TEAL,
        neutral_hue=INK,
        radius_size=gr.themes.sizes.radius_md,
        spacing_size=gr.themes.sizes.spacing_md,
        font=_SANS,
        font_mono=_MONO,
    )
    light, dark = ({name: pair[n] for name, pair in _LIGHT_AND_DARK.items()} for n in (0, 1))
    return theme.set(**_VALUES, **light, **{f"{name}_dark": value for name, value in dark.items()})
