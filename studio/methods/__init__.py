"""Methods of training, a file each. A new one is a file and its line here."""

from studio.methods.adalora import AdaLora
from studio.methods.dora import Dora
from studio.methods.frozen_encoder import FrozenEncoder
from studio.methods.full import Full
from studio.methods.lora import Lora
from studio.methods.method import Method

METHODS: dict[str, Method] = {
    method.key: method for method in (Lora(), Dora(), AdaLora(), Full(), FrozenEncoder())
}
"""In the order in which they are offered."""
