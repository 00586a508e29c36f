"""What a prefill is spared in the last layer, and that nobody can tell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    PhiConfig,
    PhiForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    StableLmConfig,
    StableLmForCausalLM,
)

from rollouts.engine import SampleRequest, sample
from rollouts.engines.last_layer import ATTENTION
from rollouts.engines.transformers import TransformersEngine
from rollouts.episode import TurnKind

SHAPE: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
PROMPTS = [[5, 6, 7, 8, 9], [10, 11, 12], [13, 14, 15, 16], [17, 18]]


def made(kind: Any = LlamaForCausalLM, config: Any = LlamaConfig, **changes: Any) -> Any:
    torch.manual_seed(0)
    model = kind(config(**{**SHAPE, **changes}))
    for weights in model.parameters():
        weights.data.mul_(4.0)
    return model.eval()


@contextmanager
def positions_seen(*modules: torch.nn.Module) -> Iterator[list[int]]:
    """How many positions each of some modules is given, over all forwards."""
    seen = [0] * len(modules)
    hooks = []
    for index, module in enumerate(modules):

        def count(_: Any, inputs: Any, output: Any, index: int = index) -> None:
            seen[index] += inputs[0].shape[:-1].numel()

        hooks.append(module.register_forward_hook(count))
    yield seen
    for hook in hooks:
        hook.remove()


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize(
    ("kind", "config", "changes"),
    [
        pytest.param(LlamaForCausalLM, LlamaConfig, {}, id="llama"),
        pytest.param(StableLmForCausalLM, StableLmConfig, {}, id="stablelm"),
        pytest.param(StableLmForCausalLM, StableLmConfig, {"use_parallel_residual": True}, id="parallel residual"),
        pytest.param(Qwen3ForCausalLM, Qwen3Config, {}, id="qwen3"),
        pytest.param(Phi3ForCausalLM, Phi3Config, {}, id="phi3"),
        pytest.param(PhiForCausalLM, PhiConfig, {"num_key_value_heads": 4}, id="phi, dense projection"),
        pytest.param(Gemma2ForCausalLM, Gemma2Config, {"layer_types": ["full_attention"] * 3}, id="gemma2, soft caps"),
        pytest.param(MixtralForCausalLM, MixtralConfig, {"num_local_experts": 4}, id="mixtral"),
        pytest.param(GPTNeoXForCausalLM, GPTNeoXConfig, {}, id="gpt-neox, no self_attn"),
        pytest.param(GPT2LMHeadModel, GPT2Config, {"n_embd": 32, "n_head": 4, "n_layer": 3}, id="gpt2, no layers"),
    ],
)
def test_the_log_probabilities_are_those_of_a_plain_forward(
    kind: Any, config: Any, changes: dict[str, Any], attention: str
) -> None:
    """First prompts and later ones, which read a cache; rows of different lengths in one forward."""
    model = made(kind, config, **changes)
    if attention == "sdpa" and not model._supports_sdpa:
        pytest.skip("the model knows no other attention than eager")
    model.set_attn_implementation(attention)
    engine = TransformersEngine(model, window=48, stop_ids=[3], temperature=0.0)
    contexts = [list(prompt) for prompt in PROMPTS]
    for _ in range(2):
        requests = [SampleRequest(str(row), list(ids), 3, TurnKind.ACT) for row, ids in enumerate(contexts)]
        for ids, completion in zip(contexts, sample(engine, requests), strict=True):
            with torch.no_grad():
                whole = torch.tensor([[*ids, *completion.token_ids]])
                expected = model(input_ids=whole).logits[0].float().log_softmax(-1)
            for offset, (token, logprob) in enumerate(zip(completion.token_ids, completion.logprobs, strict=True)):
                assert logprob == pytest.approx(float(expected[len(ids) + offset - 1, token]), abs=1e-4)
            ids.extend(completion.token_ids)
            ids.extend(range(20, 20 + len(ids) % 4 + 2))
    assert model.config._attn_implementation == attention


def test_the_last_layer_computes_one_position_a_row() -> None:
    model = made()
    engine = TransformersEngine(model, window=48, stop_ids=[3])
    first, last = model.model.layers[0], model.model.layers[-1]
    with positions_seen(first.mlp, last.mlp, first.self_attn.o_proj, last.self_attn.o_proj, last.self_attn.k_proj) as s:
        sample(engine, [SampleRequest(str(row), ids, 1, TurnKind.ACT) for row, ids in enumerate(PROMPTS)])
    forwarded = engine.forwarded_tokens + engine.padded_tokens
    assert s == [forwarded, len(PROMPTS), forwarded, len(PROMPTS), forwarded]
    assert engine.forwarded_tokens == sum(map(len, PROMPTS))


def test_nothing_is_left_on_the_model_even_where_a_forward_fails() -> None:
    model = made()
    last = model.model.layers[-1]
    during: list[str] = []

    def broken(module: torch.nn.Module, inputs: Any) -> None:
        during.append(model.config._attn_implementation)
        raise RuntimeError("broken")

    hook = last.register_forward_pre_hook(broken)
    with pytest.raises(RuntimeError, match="broken"):
        sample(TransformersEngine(model, window=48, stop_ids=[3]), [SampleRequest("s", PROMPTS[0], 1, TurnKind.ACT)])
    hook.remove()
    assert during == [ATTENTION]
    assert model.config._attn_implementation == "sdpa"
    assert not last.mlp._forward_pre_hooks
    assert not last.self_attn.o_proj._forward_pre_hooks
    ids = torch.tensor([PROMPTS[0]])
    with torch.no_grad():
        assert torch.equal(model(input_ids=ids).logits, made()(input_ids=ids).logits)
