"""Forms that a model can be exported to, a file each. A new one is a file and its line here."""

from studio.publishing.formats.ctranslate2 import CTranslate2
from studio.publishing.formats.export_format import ExportFormat
from studio.publishing.formats.ggml import Ggml
from studio.publishing.formats.merged import Merged

FORMATS: dict[str, ExportFormat] = {made.key: made for made in (CTranslate2(), Merged(), Ggml())}
"""In the order in which they are offered."""
USUAL_FORMAT = CTranslate2.key
