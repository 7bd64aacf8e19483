"""The page put together: header, the guided line, five tabs, and the interface for programs."""

import base64
from pathlib import Path
from typing import Any

import gradio as gr

from studio.reports.markup import Html, tag
from studio.reports.pieces import button
from studio.services import Services
from studio.serving.asgi import COOKIE
from studio.serving.endpoint import Endpoint
from studio.serving.gate import Gate, Names
from studio.serving.login import LOGOUT, Login, login_key
from studio.serving.uploads import UPLOADS_KEPT_SECONDS, UploadLimit, Uploads
from studio.serving.waiting import Line
from studio.settings import ASSETS, DEMO_SPEECH
from studio.translation import LOCALES, N_
from studio.ui.after_run import AfterRun
from studio.ui.api.arguments import AppForPrograms
from studio.ui.api.endpoints import build_api
from studio.ui.come_back import SESSION_BEFORE, come_back
from studio.ui.evaluate.tab import build_evaluate_tab
from studio.ui.memory.tab import build_memory_tab
from studio.ui.models.tab import build_models_tab
from studio.ui.quick_page import quick_page
from studio.ui.shared.errors import told_in
from studio.ui.shared.following import QUIET
from studio.ui.shared.handover import wire_handovers
from studio.ui.shared.i18n import LocaleMiddleware, _, page_translations
from studio.ui.shared.light_page import script, style_sheet
from studio.ui.shared.theme import studio_theme
from studio.ui.shared.visitors import VisitorCookie, back_from_login
from studio.ui.space import build_space_line, owner_login
from studio.ui.train.tab import build_train_tab
from studio.ui.transcribe.tab import build_playground_tab

TITLE = "Whisper Studio"
LOGO = ASSETS / "logo.svg"
STYLE_SHEET = ASSETS / "studio.css"
_SCRIPTS = (
    *("page_language", "arrow_keys", "come_back", "copied", "gradio_names", "one_stream", "quick_hands"),
    *("in_view", "refused", "other_files", "explorer", "unfolded"),
)
SCRIPTS = tuple(ASSETS / f"{name}.js" for name in _SCRIPTS)
"""Each says in its first lines what it is for."""
VISITORS_KEPT = 100
"""Gradio holds the state of so many; each call of a program is one more who came."""

_SWITCH_LANGUAGE = f"""
element.addEventListener('click', (event) => {{
  const button = event.target.closest('[data-locale]');
  if (!button) return;
  const rest = location.protocol === 'https:' ? '; SameSite=None; Secure; Partitioned' : '; SameSite=Lax';
  document.cookie = '{COOKIE}=' + button.dataset.locale + '; path=/; max-age=31536000' + rest;
  window.comeBack.inLanguage();
}});
"""

# Browsers clean up what the microphone hears for people on a call: that takes away sounds a model listens to.
_PLAIN_MICROPHONE = """
<script>
document.documentElement.classList.toggle('insecure', !window.isSecureContext);
if (navigator.mediaDevices) {
  const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
  const plain = {echoCancellation: false, noiseSuppression: false};
  navigator.mediaDevices.getUserMedia = (wanted) => {
    const audio = wanted?.audio && {...plain, ...(wanted.audio === true ? {} : wanted.audio)};
    return ask(audio ? {...wanted, audio} : wanted);
  };
}
</script>
"""


def build_app(services: Services, line: Line) -> gr.Blocks:
    """The whole page over `services`; nothing of it is started.

    `line` is where those wait who transcribe; programs that ask the endpoint wait in it, too.
    """
    app = AppForPrograms(
        title=TITLE,
        analytics_enabled=False,
        fill_width=True,
        delete_cache=(UPLOADS_KEPT_SECONDS // 4, UPLOADS_KEPT_SECONDS),
    )
    login = owner_login(services.settings)
    with app:
        _header(has_login=bool(services.settings.auth))
        if services.settings.on_spaces:
            build_space_line(app, services.settings, login)
        steps = _guided_line(can_train=services.settings.allow_training)
        with gr.Tabs(elem_id="studio-tabs") as tabs:
            with gr.Tab(_("GPU memory"), id="memory") as tab:
                memory = build_memory_tab(services, tab)
            with gr.Tab(_("Train"), id="train") as tab:
                train = build_train_tab(services, tab)
            with gr.Tab(_("Transcribe"), id="playground") as tab:
                transcribe = build_playground_tab(
                    services.settings, services.registry, services.engines, line, tab
                )
            with gr.Tab(_("Evaluate"), id="evaluate") as tab:
                evaluate = build_evaluate_tab(services.settings, services.registry, services.engines, tab)
            with gr.Tab(_("Models"), id="models") as tab:
                model = build_models_tab(services, tab)
        for target, step in steps.items():
            step.click(lambda target=target: gr.Tabs(selected=target), None, tabs, **QUIET)
        wire_handovers(memory.handovers, train.form, train.filled, tabs, "train")
        after_run = AfterRun(services, train.panel, tabs)
        after_run.explain(memory)
        after_run.transcribe(transcribe)
        after_run.compare(evaluate.form)
        after_run.export(model)

        again, before = come_back(app)

        def open_link(before: str, request: gr.Request) -> list[Any]:
            """Fills the form with what the page's address names, but for who comes back to the form."""
            if before:
                return [gr.skip()] * len(memory.linked())
            return memory.fill_from_link(dict(request.query_params))

        link = told_in(memory.refused, open_link, memory.linked())
        app.load(**link, inputs=before, js=SESSION_BEFORE, **QUIET)
        transcribe.wire_again(again)
        evaluate.wire_again(again)
        build_api(services)
    _name_buttons(app)
    return app


def _name_buttons(app: gr.Blocks) -> None:
    """So that the page's script knows which button was pressed."""
    for number, block in app.blocks.items():
        if isinstance(block, gr.Button) and not block.elem_id:
            block.elem_id = f"button-{number}"


def launch_options(services: Services, names: Names, uploads: Uploads, line: Line) -> dict[str, Any]:
    """What `launch` is given beside host and port; call it after `build_app`, when all texts are marked.

    `names` are those that the server answers to, `line` is that of the page.
    """
    settings = services.settings
    login = Login(settings.auth, login_key(settings.home), settings.on_spaces) if settings.auth else None
    return {
        "theme": studio_theme(),
        "css": style_sheet(STYLE_SHEET),
        "head": _PLAIN_MICROPHONE + "".join(f"<script>{script(path)}</script>" for path in SCRIPTS),
        "i18n": page_translations(),
        "favicon_path": LOGO,
        "footer_links": ["api"],
        "run_history": False,
        # Gradio would tell every visitor what others ask, and how often.
        "enable_monitoring": False,
        "ssr_mode": False,
        "state_session_capacity": VISITORS_KEPT,
        # None: Gradio's own variable decides.
        "mcp_server": settings.mcp or None,
        "max_file_size": uploads.largest_bytes,
        "allowed_paths": [str(DEMO_SPEECH / "samples")],
        "blocked_paths": [str(settings.home)],
        # What FastAPI takes for a middleware: class, positional and named arguments.
        "app_kwargs": {
            "routes": [*quick_page(), *Endpoint(services, uploads, line).routes()],
            "middleware": [
                (Gate, (names, login, settings.api_key), {}),
                (UploadLimit, (uploads,), {}),
                *([(VisitorCookie, (), {})] if settings.on_spaces else []),
                (LocaleMiddleware, (), {}),
            ],
            "exception_handlers": back_from_login(settings),
        },
        "share": settings.share,
        # Gradio would end where its page, made for the first time on a busy machine, takes it three seconds.
        "_frontend": False,
        # Gradio's own servers for files, which its variable would start, stand beside the gate.
        "num_workers": 0,
    }


def _header(*, has_login: bool) -> None:
    """Logo, name, one line, the languages, and the way out where there is a login."""
    with gr.Row(elem_id="studio-header", equal_height=True):
        gr.HTML(_brand(LOGO), elem_id="studio-brand", scale=0, min_width=220)
        gr.HTML(
            _("Estimate GPU memory, fine-tune Whisper, transcribe."),
            elem_id="studio-line",
            scale=1,
        )
        gr.HTML(_languages(), elem_id="studio-languages", js_on_load=_SWITCH_LANGUAGE, scale=0, min_width=240)
        if has_login:
            gr.Button(_("Log out"), link=LOGOUT, link_target="_self", size="sm", elem_id="studio-logout")


def _brand(logo: Path) -> Html:
    data = base64.b64encode(logo.read_bytes()).decode()
    image = tag("img", src=f"data:image/svg+xml;base64,{data}", alt="", width="36", height="36")
    return tag("div", image, tag("h1", TITLE), class_="brand")


def _languages() -> Html:
    buttons = [button(name, data_locale=code, lang=code) for code, name in LOCALES.items()]
    return tag("div", buttons, class_="languages", role="group", aria_label="Language · 语言 · 語言")


def _guided_line(*, can_train: bool) -> dict[str, gr.Button]:
    """Steps for somebody who is here for the first time, each a button that opens its tab."""
    steps = {
        "train": N_("{number}. Train the demo model"),
        "playground": N_("{number}. Record and transcribe"),
        "evaluate": N_("{number}. Compare before and after"),
    }
    if not can_train:
        del steps["train"]
    with gr.Row(elem_id="studio-steps"):
        gr.HTML(_("Start here"), elem_id="studio-start", scale=0, min_width=90)
        return {
            target: gr.Button(_(text, number=number), size="sm", min_width=150)
            for number, (target, text) in enumerate(steps.items(), 1)
        }
