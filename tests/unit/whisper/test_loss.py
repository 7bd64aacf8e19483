"""The loss in chunks is the plain one: value and gradients, whatever the model around it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional
from transformers import GenerationMixin, WhisperForConditionalGeneration

from studio.options.training import TrainingConfig
from studio.training.adapters import prepare_method
from studio.whisper.loss import chunked_cross_entropy, use_chunked_loss

WORDS, WIDTH = 97, 16


def inputs(*, is_weight_trained: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    states = torch.randn(3, 11, WIDTH, requires_grad=True)
    weight = torch.randn(WORDS, WIDTH).requires_grad_(is_weight_trained)
    labels = torch.randint(0, WORDS, (3, 11))
    labels[0, 4:] = -100
    labels[2, 9:] = -100
    return states, weight, labels


@pytest.mark.parametrize("is_weight_trained", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk_size", [1, 4, 33, 1000])
def test_value_and_gradients_are_those_of_plain_cross_entropy(
    chunk_size: int, smoothing: float, is_weight_trained: bool
) -> None:
    states, weight, labels = inputs(is_weight_trained=is_weight_trained)
    wanted = functional.cross_entropy(
        functional.linear(states, weight).view(-1, WORDS), labels.view(-1), label_smoothing=smoothing
    )
    (2 * wanted).backward()
    expected = (states.grad, weight.grad)
    states.grad = weight.grad = None
    loss = chunked_cross_entropy(states, weight, labels, chunk_size, smoothing)
    (2 * loss).backward()
    torch.testing.assert_close(loss, wanted)
    torch.testing.assert_close(states.grad, expected[0])
    if is_weight_trained:
        torch.testing.assert_close(weight.grad, expected[1])


def test_it_is_the_plain_one_under_autocast_too() -> None:
    states, weight, labels = inputs(is_weight_trained=True)
    with torch.autocast("cpu", torch.bfloat16):
        logits = functional.linear(states, weight).float()
        wanted = functional.cross_entropy(logits.view(-1, WORDS), labels.view(-1))
    wanted.backward()
    expected = (states.grad, weight.grad)
    states.grad = weight.grad = None
    with torch.autocast("cpu", torch.bfloat16):
        loss = chunked_cross_entropy(states, weight, labels, 8)
    loss.backward()
    torch.testing.assert_close(loss, wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(states.grad, expected[0], rtol=2e-2, atol=1e-3)
    torch.testing.assert_close(weight.grad, expected[1], rtol=2e-2, atol=1e-3)


def test_without_gradients_only_the_value_is_computed() -> None:
    states, weight, labels = inputs(is_weight_trained=True)
    with torch.no_grad():
        loss = chunked_cross_entropy(states, weight, labels, 8)
    assert not loss.requires_grad


def test_the_logits_are_never_there_as_a_whole() -> None:
    states, weight, labels = inputs(is_weight_trained=True)
    sizes: list[int] = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            is_logits = isinstance(result, torch.Tensor) and result.shape[-1:] == (WORDS,)
            if is_logits and result.shape != (WIDTH, WORDS):
                sizes.append(result.numel() // WORDS)
            return result

    with Watch():  # type: ignore[no-untyped-call]
        chunked_cross_entropy(states, weight, labels, 8).backward()
    assert max(sizes) == 8


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("method", ["lora", "adalora", "full", "frozen_encoder"])
def test_a_model_learns_the_same_from_it(method: str, checkpointing: bool, micro_model: Path) -> None:
    config = TrainingConfig(method=method, lora_r=4, lora_dropout=0.0, gradient_checkpointing=checkpointing)
    torch.manual_seed(1)
    features = torch.randn(2, 80, 3000)
    labels = torch.randint(0, 200, (2, 9))
    labels[1, 6:] = -100
    found = []
    for chunk_size in (0, 5):
        model = WhisperForConditionalGeneration.from_pretrained(micro_model)
        if chunk_size:
            use_chunked_loss(model, chunk_size)
        if checkpointing:
            model.gradient_checkpointing_enable()
        wrapped = prepare_method(model, config, 10).train()
        loss = wrapped(input_features=features, labels=labels).loss
        loss.backward()
        gradients = {n: p.grad for n, p in wrapped.named_parameters() if p.grad is not None}
        found.append((loss.detach(), gradients))
    (plain, expected), (chunked, gradients) = found
    torch.testing.assert_close(chunked, plain)
    assert gradients.keys() == expected.keys() and gradients
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-3, atol=1e-6, msg=name)


def test_a_model_with_chunked_loss_still_writes_and_saves_as_before(
    micro_model: Path, tmp_path: Path
) -> None:
    model = WhisperForConditionalGeneration.from_pretrained(micro_model).eval()
    features, prompt = torch.randn(1, 80, 3000), torch.tensor([[300, 301]])
    with torch.no_grad():
        before = model(input_features=features, decoder_input_ids=prompt).logits
        use_chunked_loss(model, 4)
        after = model(input_features=features, decoder_input_ids=prompt).logits
        encoded = model.get_encoder()(features)
        rows = GenerationMixin.generate(
            model, encoder_outputs=encoded, decoder_input_ids=prompt, max_new_tokens=3, do_sample=False
        )
    assert rows.shape == (1, 5)
    assert torch.equal(before, after)
    model.save_pretrained(tmp_path)
    assert WhisperForConditionalGeneration.from_pretrained(tmp_path).config.architectures == [
        "WhisperForConditionalGeneration"
    ]
