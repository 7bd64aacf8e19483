"""Forms that a model can have, a file each. A new one to export to is a file and its line here."""

from collections.abc import Iterable

from studio.publishing.formats.adapter import Adapter
from studio.publishing.formats.ctranslate2 import CTranslate2
from studio.publishing.formats.export_format import ExportFormat
from studio.publishing.formats.ggml import Ggml
from studio.publishing.formats.merged import Merged
from studio.publishing.formats.model_form import ModelForm
from studio.publishing.formats.whole import Whole
from studio.registry.spec import ModelSpec

FORMATS: dict[str, ExportFormat] = {made.key: made for made in (CTranslate2(), Merged(), Ggml())}
"""Those to export to, in the order in which they are offered."""
USUAL_FORMAT = CTranslate2.key
FORMS: tuple[ModelForm, ...] = (Whole(), Adapter(), *FORMATS.values())
"""All of them."""


def form_of(spec: ModelSpec) -> ModelForm:
    """The form that a model is in, by its card or by what its folder holds."""
    exported = FORMATS.get(spec.form)
    if exported is not None and exported.kind is spec.kind:
        return exported
    return next((form for form in FORMS if form.kind is spec.kind and not spec.form), ModelForm())


def key_of(spec: ModelSpec) -> str:
    """What the form is called that a model was exported to, by its card or its folder; empty if to none."""
    form = form_of(spec)
    return form.key if isinstance(form, ExportFormat) else ""


def exports_of(model_id: str, models: Iterable[ModelSpec]) -> list[ModelSpec]:
    """Those of the models that were made of this one, by what their cards say."""
    return [row for row in models if row.card.get("source") == model_id and key_of(row)]
