"""Sessions of Gradio that share what none of them changes.

For each new visitor, and for each call of a program, Gradio describes every component of the page anew: here
80 ms of the event loop, for which everybody waits, and a MiB. Now a component is described once; who changes
one has a description of their own.
"""

from typing import Any

from gradio.blocks import Block, Blocks, BlocksConfig


def make_light(app: Blocks) -> None:
    """Changes what new sessions of `app` are made of; call it when the page is built."""
    app.default_config = _Shared(app.default_config, {})


class _Shared(BlocksConfig):
    """Remembers the description of each component by its number."""

    def __init__(self, source: BlocksConfig, described: dict[int, tuple[Block, dict[str, Any]]]) -> None:
        vars(self).update(vars(source))
        self._described = described

    def __copy__(self) -> "_Shared":
        return _Shared(super().__copy__(), self._described)  # type: ignore[no-untyped-call]

    def config_for_block(  # type: ignore[override]  # there it needs no `self`
        self, _id: int, rendered_ids: list[int], block: Block, renderable: Any = None
    ) -> dict[str, Any]:
        """The component as the browser is told it; Gradio asks for it here."""
        if renderable is not None:
            return BlocksConfig.config_for_block(_id, rendered_ids, block, renderable)
        if _id not in self._described:
            self._described[_id] = block, BlocksConfig.config_for_block(_id, rendered_ids, block)
        known, config = self._described[_id]
        if known is not block:  # a visitor's own
            return BlocksConfig.config_for_block(_id, rendered_ids, block)
        return {**config, "props": {**config["props"]}}  # a session puts values into it
