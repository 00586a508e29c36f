"""The embedded engine: what a plain forward pass says, each token forwarded once, whoever is sampled beside."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM

from rollouts.engine import Completion, SampleRequest, sample
from rollouts.engines.transformers import TransformersEngine
from rollouts.episode import Finish, TurnKind
from summarization.resolve import UserError

VOCABULARY, WINDOW, STOP = 50, 96, 3
SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}


def model(kind: Any = LlamaForCausalLM, config: Any = LlamaConfig, **changes: Any) -> Any:
    torch.manual_seed(0)
    made = kind(config(**{**SHAPE, **changes}))
    # Larger weights than at the start of training: the distributions are far from flat.
    for weights in made.parameters():
        weights.data.mul_(4.0)
    return made.eval()


def engine(of: Any, **changes: Any) -> TransformersEngine:
    return TransformersEngine(of, **{"window": WINDOW, "stop_ids": [STOP], "max_sessions": 16, **changes})


def contexts(count: int, seed: int = 0) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(5, VOCABULARY) for _ in range(rng.randint(1, 20))] for _ in range(count)]


def converse(
    with_engine: TransformersEngine, starts: Sequence[Sequence[int]], turns: int = 4, prefix: str = "s"
) -> list[tuple[list[int], list[tuple[int, Completion]]]]:
    """Several turns with every session: the whole context of each, and where each sample began."""
    rng = random.Random(1)
    talks: list[tuple[list[int], list[tuple[int, Completion]]]] = [(list(start), []) for start in starts]
    for turn in range(turns):
        requests = [
            SampleRequest(f"{prefix}{index}", list(ids), 3 + (index + turn) % 4, TurnKind.ACT)
            for index, (ids, _) in enumerate(talks)
        ]
        for (ids, samples), completion in zip(talks, sample(with_engine, requests), strict=True):
            samples.append((len(ids), completion))
            ids.extend(completion.token_ids)
            ids.extend(rng.randrange(5, VOCABULARY) for _ in range(rng.randint(1, 6)))
    return talks


@pytest.mark.parametrize(
    "made",
    [
        pytest.param((LlamaForCausalLM, LlamaConfig), id="llama"),
        pytest.param((Qwen2ForCausalLM, Qwen2Config), id="qwen2"),
        pytest.param((MistralForCausalLM, MistralConfig), id="mistral"),
    ],
)
@pytest.mark.parametrize(("temperature", "under"), [(1.0, 1.0), (0.7, 0.7), (0.0, 1.0)])
@pytest.mark.parametrize("prefill_tokens", [16384, 8])
def test_log_probabilities_are_those_of_a_plain_forward(
    made: tuple[Any, Any], temperature: float, under: float, prefill_tokens: int
) -> None:
    changes = {"sliding_window": None} if made[0] is MistralForCausalLM else {}
    policy = model(*made, **changes)
    for ids, samples in converse(engine(policy, temperature=temperature, prefill_tokens=prefill_tokens), contexts(9)):
        with torch.no_grad():
            expected = (policy(input_ids=torch.tensor([ids])).logits[0].float() / under).log_softmax(-1)
        for start, completion in samples:
            for offset, (token, logprob) in enumerate(zip(completion.token_ids, completion.logprobs, strict=True)):
                scores = expected[start + offset - 1]
                assert logprob == pytest.approx(float(scores[token]), abs=1e-4)
                if temperature == 0.0:
                    assert float(scores[token]) == pytest.approx(float(scores.max()), abs=1e-4)


def test_no_token_is_forwarded_twice() -> None:
    """The last token of a context is never forwarded, unless more is sampled after it."""
    made = engine(model())
    talks = converse(made, contexts(9))
    unique = sum(samples[-1][0] + len(samples[-1][1].token_ids) - 1 for _, samples in talks)
    assert made.forwarded_tokens == unique
    assert made.sampled_tokens == sum(len(c.token_ids) for _, samples in talks for _, c in samples)


def test_siblings_share_the_forward_of_their_first_prompt() -> None:
    made = engine(model())
    prompt = contexts(1)[0] + list(range(5, 25))
    talks = converse(made, [prompt] * 8, turns=1)
    sampled = [samples[0][1].token_ids for _, samples in talks]
    assert len(set(sampled)) > 1
    assert made.shared_tokens == 7 * len(prompt)
    assert made.forwarded_tokens == len(prompt) + sum(len(ids) - 1 for ids in sampled)


def test_what_is_sampled_depends_on_nothing_beside() -> None:
    """Not on the order of requests, nor on how many are sampled at once: draws hang on session and position."""
    policy, starts = model(), contexts(9)
    together = converse(engine(policy), starts)
    alone = engine(policy, max_sessions=1)
    for index in (0, 4, 8):
        first = sample(alone, [SampleRequest(f"s{index}", starts[index], 3 + index % 4, TurnKind.ACT)])[0]
        assert first.token_ids == together[index][1][0][1].token_ids
        alone.release(f"s{index}")
    requests = [SampleRequest(f"s{index}", start, 3 + index % 4, TurnKind.ACT) for index, start in enumerate(starts)]
    backwards = sample(engine(policy), requests[::-1])[::-1]
    assert [c.token_ids for c in backwards] == [samples[0][1].token_ids for _, samples in together]


def test_other_seeds_and_sessions_draw_otherwise() -> None:
    policy, start = model(), contexts(1)[0]

    def drawn(session: str, seed: int, engine_seed: int = 0) -> tuple[int, ...]:
        request = SampleRequest(session, start, 12, TurnKind.ACT, seed=seed)
        return sample(engine(policy, seed=engine_seed), [request])[0].token_ids

    assert drawn("a", 0) == drawn("a", 0)
    assert len({drawn("a", 0), drawn("b", 0), drawn("a", 1), drawn("a", 0, 1)}) == 4


def test_samples_follow_the_distribution() -> None:
    policy, start = model(), contexts(1)[0]
    made = engine(policy, max_sessions=500)
    first = [c.token_ids[0] for c in sample(made, [SampleRequest(f"{n}", start, 1, TurnKind.ACT) for n in range(500)])]
    with torch.no_grad():
        expected = policy(input_ids=torch.tensor([start])).logits[0, -1].float().softmax(-1)
    for token in range(VOCABULARY):
        assert first.count(token) / 500 == pytest.approx(float(expected[token]), abs=0.09)


def test_a_sample_stops_at_its_first_stop_token_or_its_limit() -> None:
    talks = converse(engine(model(), stop_ids=range(3, 15)), contexts(16), turns=3)
    finishes = [completion.finish for _, samples in talks for _, completion in samples]
    assert {Finish.STOP, Finish.LENGTH} == set(finishes)
    for _, samples in talks:
        for _, completion in samples:
            stops = [token in range(3, 15) for token in completion.token_ids]
            assert not any(stops[:-1])
            assert stops[-1] is (completion.finish is Finish.STOP)


def test_a_released_place_is_taken_by_the_next() -> None:
    made = engine(model(), max_sessions=2)
    for index, start in enumerate(contexts(10)):
        sample(made, [SampleRequest(f"s{index}", start, 4, TurnKind.ACT)])
        made.release(f"s{index}")
    made.release("never seen")


def test_a_window_that_was_reset_is_forwarded_anew() -> None:
    policy = model()
    made, start = engine(policy), contexts(1)[0]
    before = sample(made, [SampleRequest("s", start, 5, TurnKind.ACT)])[0]
    policy.lm_head.weight.data.mul_(-1.0)
    made.reset()
    after = sample(made, [SampleRequest("s", start, 5, TurnKind.ACT)])[0]
    assert before.token_ids != after.token_ids


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda ids: [*ids[:-1], (ids[-1] + 1) % VOCABULARY, 7, 7], id="a changed prefix"),
        pytest.param(lambda ids: ids[:-2], id="a shorter context"),
        pytest.param(lambda ids: [*ids, *[7] * WINDOW], id="past the window"),
        pytest.param(lambda ids: [], id="an empty context"),
    ],
)
def test_what_breaks_a_session_is_an_error(wrong: Any) -> None:
    made = engine(model())
    ids = contexts(1)[0] + [5, 6, 7]
    ids += sample(made, [SampleRequest("s", ids, 4, TurnKind.ACT)])[0].token_ids
    with pytest.raises(AssertionError):
        made.submit(SampleRequest("s", wrong(ids), 4, TurnKind.ACT))


def test_more_sessions_than_places_is_an_error() -> None:
    made = engine(model(), max_sessions=1)
    made.submit(SampleRequest("a", [5], 1, TurnKind.ACT))
    with pytest.raises(AssertionError):
        made.submit(SampleRequest("b", [5], 1, TurnKind.ACT))


def test_logits_that_are_not_finite_are_an_error() -> None:
    policy = model()
    policy.lm_head.weight.data.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match="not finite"):
        sample(engine(policy), [SampleRequest("s", [5, 6], 3, TurnKind.ACT)])


def test_models_and_settings_it_cannot_serve_are_refused() -> None:
    with pytest.raises(UserError, match="lower window"):
        engine(model(), window=500)
    with pytest.raises(UserError, match="temperature"):
        engine(model(), temperature=-1.0)
    with pytest.raises(UserError, match="sliding"):
        engine(model(MistralForCausalLM, MistralConfig, sliding_window=16))


def test_bfloat16_is_near() -> None:
    policy = model()
    ids, samples = converse(engine(policy, autocast=torch.bfloat16), contexts(4))[0]
    with torch.no_grad():
        expected = policy(input_ids=torch.tensor([ids])).logits[0].float().log_softmax(-1)
    for start, completion in samples:
        for offset, (token, logprob) in enumerate(zip(completion.token_ids, completion.logprobs, strict=True)):
            assert logprob == pytest.approx(float(expected[start + offset - 1, token]), abs=0.5)


def test_prefills_are_cut_to_suit_the_device() -> None:
    """On a CPU, forwards of at most 4,096 tokens: nine prompts of a thousand take three."""
    policy = model(max_position_embeddings=1024)
    forwards: list[tuple[int, ...]] = []
    policy.register_forward_pre_hook(
        lambda module, inputs, settings: forwards.append(tuple(settings["input_ids"].shape)), with_kwargs=True
    )
    rng = random.Random(0)
    prompts = [[rng.randrange(5, VOCABULARY) for _ in range(1000)] for _ in range(9)]
    made = engine(policy, window=1024)
    sample(made, [SampleRequest(f"s{row}", ids, 1, TurnKind.ACT) for row, ids in enumerate(prompts)])
    assert forwards == [(4, 1000), (4, 1000), (1, 1000)]
    assert made.forwarded_tokens == 9000
    assert made.padded_tokens == 0


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "many"])
def test_a_wrong_prefill_size_is_refused(wrong: Any) -> None:
    with pytest.raises(UserError, match=r"prefill_tokens is .*must be a whole number of at least 1"):
        engine(model(), prefill_tokens=wrong)
