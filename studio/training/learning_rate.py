"""The learning rate of a run that names none: by method and by the width of the model."""

from dataclasses import replace

from studio.options.training import TrainingConfig


def learning_rate_for(config: TrainingConfig, d_model: int) -> float:
    """The peak learning rate of a run on a model of width `d_model`: its own, or one that suits both."""
    if config.learning_rate is not None:
        return config.learning_rate
    rates = config.training_method.learning_rates
    return next(rate for width, rate in reversed(rates) if d_model >= width)


def gentler(config: TrainingConfig, learning_rate: float | None) -> TrainingConfig:
    """The same run with rehearsal and a third of the rate that it had: it teaches less and harms less."""
    usual = TrainingConfig().replay_share
    rate = float(f"{learning_rate / 3:.1g}") if learning_rate else config.learning_rate
    return replace(config, learning_rate=rate, replay_share=config.replay_share or usual)
