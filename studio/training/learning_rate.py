"""The learning rate of a run that names none: by method and by the width of the model."""

from dataclasses import replace

from studio.options.training import TrainingConfig

_ADAPTER_RATES = ((0, 2e-3), (384, 3e-4))
"""Least `d_model` and rate. With 1e-3, with which PEFT's own guide trains large-v2, whisper-tiny learns as
much and forgets far more (`tests/benchmarks/reports/recipe.md`); models narrower than tiny, such as the demo,
take more."""
_ADALORA_RATES = ((0, 2e-3), (384, 1e-3))
"""It begins with its regularisation and prunes as it goes: it learns more slowly."""
_FULL_RATES = ((0, 5e-4), (384, 3.75e-5), (512, 2.5e-5), (768, 1.25e-5), (1024, 6.25e-6), (1280, 5e-6))
"""A fortieth of what OpenAI pre-trained each size with (Whisper paper, table 17), as its authors advise."""


def learning_rate_for(config: TrainingConfig, d_model: int) -> float:
    """The peak learning rate of a run on a model of width `d_model`: its own, or one that suits both."""
    if config.learning_rate is not None:
        return config.learning_rate
    rates = _ADAPTER_RATES if config.is_adapter else _FULL_RATES
    if config.method == "adalora":
        rates = _ADALORA_RATES
    return next(rate for width, rate in reversed(rates) if d_model >= width)


def gentler(config: TrainingConfig, learning_rate: float | None) -> TrainingConfig:
    """The same run with rehearsal and a third of the rate that it had: it teaches less and harms less."""
    usual = TrainingConfig().replay_share
    rate = float(f"{learning_rate / 3:.1g}") if learning_rate else config.learning_rate
    return replace(config, learning_rate=rate, replay_share=config.replay_share or usual)
