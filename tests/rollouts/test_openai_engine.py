"""The engine elsewhere: what it samples is what the embedded one does, and no fault of an endpoint is a crash.

The endpoints are real servers on loopback: one of ``http.server`` with the embedded engine behind it, one that does
what a test tells it to, and ``transformers serve`` where its extras are installed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from eval.arguments import EvalArguments
from eval.setup import Setup
from rollouts.collect import collect
from rollouts.engine import Completion, EngineFailure, SampleRequest, sample
from rollouts.engines.openai import OpenAIEngine
from rollouts.engines.transformers import TransformersEngine
from rollouts.environments.recall import Recall, tasks
from rollouts.episode import Finish, TurnKind
from rollouts.jobs import jobs
from rollouts.policies.load import Policy, build_tiny
from rollouts.policies.tiny import tiny_tokenizer
from rollouts.rendering import Renderer
from rollouts.runner import Limits
from summarization.messages import Message
from summarization.resolve import UserError
from summarization.strategies import SelfSummary

KEY = "sk-very-secret-0123"
MESSAGES = (Message("system", "read and answer"), Message("user", "where is the letter ?"))
Answer = Callable[["Handler", dict[str, Any]], None]


class Handler(BaseHTTPRequestHandler):
    """Reads a request and lets the server's ``answer`` reply."""

    def do_POST(self) -> None:
        server: Any = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.seen.append((time.monotonic(), self.path, dict(self.headers), body))
            server.open += 1
            server.most_open = max(server.most_open, server.open)
        try:
            with contextlib.suppress(OSError):
                server.answer(self, body)
        finally:
            with server.lock:
                server.open -= 1

    def reply(self, value: object, status: int = 200, **headers: str) -> None:
        """Send a value as JSON, or bytes as they are."""
        payload = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Endpoint(ThreadingHTTPServer):
    """A server whose ``answer`` a test sets."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.seen: list[tuple[float, str, dict[str, str], dict[str, Any]]] = []
        self.open = self.most_open = 0
        self.answer: Answer = lambda handler, body: handler.reply(chat("none"))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def policy(renderer: Renderer) -> Policy:
    """Larger weights than at the start of training, so that it says more than its last token, and sometimes ends."""
    made = build_tiny(0)
    embeddings = made.model.get_input_embeddings().weight
    assert isinstance(embeddings, torch.Tensor)
    with torch.no_grad():
        for weights in made.model.parameters():
            if weights is not embeddings:
                weights.mul_(3.0)
        embeddings[renderer.closing_ids[0]] *= 2.0
    return made


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer(tiny_tokenizer())


def engine_at(endpoint: Endpoint, renderer: Renderer, **settings: Any) -> OpenAIEngine:
    given = {"base_url": endpoint.url, "model": "m", "api": "chat", "first_wait": 0.02, "max_retries": 2, "timeout": 5}
    return OpenAIEngine(renderer, **{**given, **settings})


def request_of(session: str = "s/0", max_tokens: int = 8, **fields: Any) -> SampleRequest:
    return SampleRequest(
        session, **{"token_ids": [5, 6], "max_tokens": max_tokens, "kind": TurnKind.ACT, "messages": MESSAGES, **fields}
    )


def chat(content: object, finish: str | None = "stop", **fields: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": finish}], **fields}


def text_reply(text: str, finish: str = "stop", **fields: Any) -> dict[str, Any]:
    return {"choices": [{"text": text, "finish_reason": finish, **fields}]}


def outcome_of(engine: OpenAIEngine, request: SampleRequest | None = None) -> Completion | EngineFailure:
    engine.submit(request or request_of())
    [(_, outcome)] = engine.step()
    return outcome


def failure_of(engine: OpenAIEngine) -> str:
    outcome = outcome_of(engine)
    assert isinstance(outcome, EngineFailure)
    assert "\n" not in outcome.reason
    return outcome.reason


def completion_of(engine: OpenAIEngine, request: SampleRequest | None = None) -> Completion:
    outcome = outcome_of(engine, request)
    assert isinstance(outcome, Completion), outcome
    return outcome


def embedded(policy: Policy, renderer: Renderer, **settings: Any) -> TransformersEngine:
    return TransformersEngine(
        policy.model,
        **{"window": 512, "stop_ids": renderer.stop_ids, "temperature": 0.0, "max_sessions": 8, **settings},
    )


def requests_for(renderer: Renderer) -> list[SampleRequest]:
    texts = ("where is the letter ?", "who owns much ?", "read on . none", "a letter came for unknown")
    made = []
    for index, text in enumerate(texts):
        messages = (Message("system", "read and answer"), Message("user", text))
        ids = (*renderer.opening(messages), *renderer.generation_ids)
        made.append(request_of(f"s/{index}", 6 + index, token_ids=ids, messages=messages))
    return made


def expected_from(policy: Policy, renderer: Renderer, wanted: list[SampleRequest]) -> list[Completion]:
    """What the embedded engine samples: different texts, one of which ends by itself."""
    expected = sample(embedded(policy, renderer), wanted)
    assert len({renderer.decode(completion.token_ids) for completion in expected} - {""}) == len(wanted)
    assert {completion.finish for completion in expected} == set(Finish)
    return expected


def serving(policy: Policy, renderer: Renderer, temperature: float, named: str) -> Answer:
    """A completions endpoint with the embedded engine behind it; ``named`` says how it returns token ids."""
    engine, lock = embedded(policy, renderer, temperature=temperature), threading.Lock()
    counter = iter(range(10**6))

    def answer(handler: Handler, body: dict[str, Any]) -> None:
        with lock:
            session = f"r{next(counter)}"
            wanted = SampleRequest(session, body["prompt"], body["max_tokens"], TurnKind.ACT)
            done = sample(engine, [wanted])[0]
            engine.release(session)
        ids = list(done.token_ids)
        kept = ids[:-1] if done.finish is Finish.STOP else ids
        logprobs: dict[str, Any] = {"token_logprobs": list(done.logprobs)}
        fields: dict[str, Any] = {}
        if named == "token_ids":
            assert body["return_token_ids"] is True
            fields["token_ids"] = ids
        elif named == "tokens":
            assert body["return_tokens_as_token_ids"] is True
            logprobs["tokens"] = [f"token_id:{token}" for token in ids]
        elif "return_token_ids" in body:
            handler.reply({"error": {"message": "Unrecognized request argument: return_token_ids"}}, 400)
            return
        usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": len(ids)}
        text = renderer.tokenizer.decode(kept)
        handler.reply({**text_reply(str(text), done.finish.value, logprobs=logprobs, **fields), "usage": usage})

    return answer


@pytest.mark.parametrize("named", ["token_ids", "tokens"])
def test_completions_are_the_embedded_engines_token_by_token(
    endpoint: Endpoint, policy: Policy, renderer: Renderer, named: str
) -> None:
    endpoint.answer = serving(policy, renderer, 0.0, named)
    engine = engine_at(endpoint, renderer, api="completions")
    wanted = requests_for(renderer)
    got, expected = sample(engine, wanted), expected_from(policy, renderer, wanted)
    for one, other in zip(got, expected, strict=True):
        assert (one.token_ids, one.finish) == (other.token_ids, other.finish)
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    assert engine.encoded_again == 0
    assert engine.prompt_tokens == sum(len(request.token_ids) for request in wanted)
    assert engine.completion_tokens == sum(len(completion.token_ids) for completion in expected)
    assert {path for _, path, _, _ in endpoint.seen} == {"/v1/completions"}


def test_an_endpoint_that_gives_no_token_ids_is_asked_without_and_its_text_is_encoded(
    endpoint: Endpoint, policy: Policy, renderer: Renderer, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.answer = serving(policy, renderer, 0.0, "nothing")
    engine = engine_at(endpoint, renderer, api="completions", max_sessions=1)
    wanted = requests_for(renderer)
    with caplog.at_level(logging.WARNING):
        got = sample(engine, wanted)
    for one, other in zip(got, expected_from(policy, renderer, wanted), strict=True):
        assert (one.token_ids, one.finish) == (other.token_ids, other.finish)
    assert engine.encoded_again == len(wanted)
    # Asked for ids once, then never again; said once.
    assert ["return_token_ids" in body for *_, body in endpoint.seen] == [True, *[False] * len(wanted)]
    assert len(caplog.records) == 1


def test_a_sampled_request_carries_a_seed_of_its_own(endpoint: Endpoint, renderer: Renderer) -> None:
    engine = engine_at(endpoint, renderer, temperature=1.0, max_sessions=1)
    again = engine_at(endpoint, renderer, temperature=1.0, max_sessions=1)
    other = engine_at(endpoint, renderer, temperature=1.0, max_sessions=1, seed=1)
    for each in (engine, again, other):
        sample(each, [request_of("a"), request_of("b"), request_of("b", token_ids=[5])])
    seeds = [body["seed"] for *_, body in endpoint.seen]
    assert seeds[:3] == seeds[3:6]
    assert len(set(seeds)) == 6
    completion_of(engine_at(endpoint, renderer))
    assert endpoint.seen[-1][3]["temperature"] == 0
    assert "seed" not in endpoint.seen[-1][3]


def test_the_text_of_a_chat_is_counted_in_the_policys_tokens(endpoint: Endpoint, renderer: Renderer) -> None:
    engine = engine_at(endpoint, renderer)
    ids = renderer.content_ids("the letter is none")
    replies: list[tuple[object, str | None, tuple[int, ...], Finish]] = [
        ("the letter is none", "stop", (*ids, renderer.closing_ids[0]), Finish.STOP),
        ("the letter is none", None, (*ids, renderer.closing_ids[0]), Finish.STOP),
        ("the letter is none", "length", ids, Finish.LENGTH),
        ([{"type": "text", "text": "the letter"}, {"text": " is none"}], "length", ids, Finish.LENGTH),
        ("", "stop", (renderer.closing_ids[0],), Finish.STOP),
        (None, "length", (), Finish.LENGTH),
        # The limit holds, whatever the endpoint does.
        ("none " * 8, "stop", renderer.content_ids("none " * 8), Finish.STOP),
        ("none " * 8, None, renderer.content_ids("none " * 8), Finish.LENGTH),
        ("none " * 20, "stop", renderer.content_ids("none " * 8), Finish.LENGTH),
    ]
    for content, finish, expected, stopped in replies:
        endpoint.answer = always(chat(content, finish))
        completion = completion_of(engine)
        assert (completion.token_ids, completion.finish) == (expected, stopped)
        assert completion.logprobs == (0.0,) * len(expected)
    assert engine.encoded_again == len(replies)


def test_token_ids_end_at_the_first_stop_token(endpoint: Endpoint, renderer: Renderer) -> None:
    stop = renderer.closing_ids[0]
    scores = {"token_logprobs": [-1.0, -2.0, -3.0, -4.0]}
    reply = text_reply("", "length", token_ids=[5, 6, stop, 7], logprobs=scores)
    endpoint.answer = lambda handler, body: handler.reply(reply)
    completion = completion_of(engine_at(endpoint, renderer, api="completions"))
    assert completion == Completion((5, 6, stop), (-1.0, -2.0, -3.0), Finish.STOP)


def test_log_probabilities_that_fit_no_token_are_zero(endpoint: Endpoint, renderer: Renderer) -> None:
    engine = engine_at(endpoint, renderer, api="completions")
    stop = renderer.closing_ids[0]
    for scores, expected in (
        ([-1.0, -2.0], (-1.0, -2.0, 0.0)),
        ([-1.0], (0.0, 0.0, 0.0)),
        ([None, float("nan")], (0.0, 0.0, 0.0)),
        (["x", float("-inf")], (0.0, 0.0, 0.0)),
        ("nonsense", (0.0, 0.0, 0.0)),
    ):
        reply = text_reply("", "stop", token_ids=[5, 6], logprobs={"token_logprobs": scores})
        endpoint.answer = lambda handler, body, reply=reply: handler.reply(reply)
        assert completion_of(engine) == Completion((5, 6, stop), expected, Finish.STOP)


def test_a_prefix_stands_in_the_conversation_and_is_not_answered_twice(endpoint: Endpoint, renderer: Renderer) -> None:
    endpoint.answer = lambda handler, body: handler.reply(chat("the letter is none"))
    completion = completion_of(engine_at(endpoint, renderer), request_of(prefix="the letter is"))
    assert renderer.decode(completion.token_ids) == "none"
    sent = endpoint.seen[-1][3]["messages"]
    assert sent == [MESSAGES[0].as_dict(), {"role": "user", "content": "where is the letter ?\nthe letter is"}]

    going_on = {"continue_final_message": True, "add_generation_prompt": False}
    engine = engine_at(endpoint, renderer, extra=going_on)
    completion_of(engine, request_of(prefix="the letter is"))
    body = endpoint.seen[-1][3]
    assert body["messages"] == [*[m.as_dict() for m in MESSAGES], {"role": "assistant", "content": "the letter is"}]
    assert going_on.items() <= body.items()
    completion_of(engine)
    assert not going_on.keys() & endpoint.seen[-1][3].keys()


def test_extra_fields_are_merged_and_none_takes_one_away(endpoint: Endpoint, renderer: Renderer) -> None:
    completion_of(engine_at(endpoint, renderer, extra={"top_k": 1, "temperature": None}))
    body = endpoint.seen[-1][3]
    assert body == {"model": "m", "max_tokens": 8, "top_k": 1, "messages": [m.as_dict() for m in MESSAGES]}


def test_a_limit_by_its_newer_name(endpoint: Endpoint, renderer: Renderer) -> None:
    def answer(handler: Handler, body: dict[str, Any]) -> None:
        if "max_tokens" in body:
            handler.reply({"error": {"message": "Use 'max_completion_tokens' instead."}}, 400)
        else:
            handler.reply(chat("none"))

    endpoint.answer = answer
    engine = engine_at(endpoint, renderer)
    completion_of(engine)
    completion_of(engine)
    assert ["max_completion_tokens" in body for *_, body in endpoint.seen] == [False, True, True]


def test_tokens_and_cost_are_counted(endpoint: Endpoint, renderer: Renderer) -> None:
    engine = engine_at(endpoint, renderer, price_in=2.0, price_out=10.0)
    endpoint.answer = lambda h, b: h.reply(chat("none", usage={"prompt_tokens": 1000, "completion_tokens": 100}))
    completion_of(engine)
    assert (engine.prompt_tokens, engine.completion_tokens) == (1000, 100)
    assert engine.cost == pytest.approx(0.003)
    # Where it does not say, or says nonsense, we count.
    for usage in (None, {"prompt_tokens": -1, "completion_tokens": "x"}):
        endpoint.answer = lambda handler, body, usage=usage: handler.reply(chat("none", usage=usage))
        completion_of(engine)
    assert (engine.prompt_tokens, engine.completion_tokens) == (1004, 102)
    assert (engine.requests, engine.retries, engine.failures) == (3, 0, 0)


def test_many_are_in_flight_and_none_waits_for_the_slowest(endpoint: Endpoint, renderer: Renderer) -> None:
    gate = threading.Event()

    def answer(handler: Handler, body: dict[str, Any]) -> None:
        if body["max_tokens"] == 1:
            gate.wait(10)
        else:
            time.sleep(0.05)
        handler.reply(chat("none"))

    endpoint.answer = answer
    engine = engine_at(endpoint, renderer, max_sessions=4, timeout=20)
    assert engine.max_sessions == 4
    assert engine.step() == []
    wanted = [request_of(f"s/{index}", 1 if index == 0 else 8) for index in range(12)]
    for request in wanted:
        engine.submit(request)
    done = []
    while len(done) < 11:
        step = engine.step()
        assert step
        done += step
    assert {request.session for request, _ in done} == {request.session for request in wanted[1:]}
    gate.set()
    assert [request.session for request, _ in engine.step()] == ["s/0"]
    assert engine.step() == []
    engine.release("s/0")
    engine.release("never seen")
    assert endpoint.most_open == 4


def test_attempts_keep_to_the_rate_limit(endpoint: Endpoint, renderer: Renderer) -> None:
    engine = engine_at(endpoint, renderer, requests_per_minute=600, max_sessions=8)
    sample(engine, [request_of(f"s/{index}") for index in range(6)])
    times = sorted(when for when, *_ in endpoint.seen)
    assert times[-1] - times[0] >= 5 * 0.1 - 0.05


@pytest.mark.parametrize("asked", ["1", "date"])
def test_it_waits_as_long_as_it_is_asked_to(endpoint: Endpoint, renderer: Renderer, asked: str) -> None:
    def answer(handler: Handler, body: dict[str, Any]) -> None:
        if len(endpoint.seen) == 1:
            # A date has whole seconds: two from now are at least one.
            after = formatdate(time.time() + 2, usegmt=True) if asked == "date" else asked
            handler.reply({"error": {"message": "slow down"}}, 429, Retry_After=after)
        else:
            handler.reply(chat("none"))

    endpoint.answer = answer
    engine = engine_at(endpoint, renderer)
    completion_of(engine)
    assert endpoint.seen[1][0] - endpoint.seen[0][0] >= 0.95
    assert engine.retries == 1


@pytest.mark.parametrize("after", ["soon", "-5", "", "nan", "1e999", "9" * 400 + "x", "Tue, 99 Foo 2020", "1.2.3"])
def test_a_senseless_wait_is_not_kept(endpoint: Endpoint, renderer: Renderer, after: str) -> None:
    def answer(handler: Handler, body: dict[str, Any]) -> None:
        handler.reply({}, 503, Retry_After=after) if len(endpoint.seen) == 1 else handler.reply(chat("none"))

    endpoint.answer = answer
    completion_of(engine_at(endpoint, renderer))


def half(handler: Handler, body: dict[str, Any]) -> None:
    payload = json.dumps(chat("none")).encode()
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(payload)))
    handler.end_headers()
    handler.wfile.write(payload[: len(payload) // 2])


def half_a_line(handler: Handler, body: dict[str, Any]) -> None:
    handler.wfile.write(b"HTTP/1.1 20")


def half_a_chunk(handler: Handler, body: dict[str, Any]) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{")


def nonsense_chunk(handler: Handler, body: dict[str, Any]) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{")


def hang_up(handler: Handler, body: dict[str, Any]) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def hang(handler: Handler, body: dict[str, Any]) -> None:
    time.sleep(1.0)


def drip(handler: Handler, body: dict[str, Any]) -> None:
    """Never silent for long, and never done."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(20):
        handler.wfile.write(b" ")
        time.sleep(0.05)


def drip_headers(handler: Handler, body: dict[str, Any]) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    for _ in range(20):
        handler.wfile.write(b"x")
        time.sleep(0.05)


def always(payload: object, status: int = 200) -> Answer:
    """The same reply to every request."""
    return lambda handler, body: handler.reply(payload, status)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(always({}, 500), "status 500", id="500"),
        pytest.param(always({"error": {"message": "over\nloaded"}}, 503), "(over loaded)", id="503"),
        pytest.param(always({"error": "slow"}, 429), "status 429 (slow)", id="429"),
        pytest.param(always(b"<html>\x00\xff</html>", 502), "<html>", id="page"),
        pytest.param(always(b""), "is empty", id="empty"),
        pytest.param(always(b"\xff\xfe garbage"), "is no JSON", id="garbage"),
        pytest.param(always(b"[" * 100_000), "is no JSON", id="deep"),
        pytest.param(always(b'{"choices": [{"text": ' + b"9" * 5000 + b"}]}"), "is no JSON", id="long number"),
        pytest.param(always([]), "is no completion", id="list"),
        pytest.param(always(b"null"), "the reply is no", id="null"),
        pytest.param(always({"choices": []}), "is no completion", id="no choice"),
        pytest.param(always({"choices": {"0": 1}}), "is no completion", id="no list"),
        pytest.param(always({"error": {"message": "provider is down"}}), "provider is down", id="error in 200"),
        pytest.param(always({"choices": [{"message": 3}]}), "has no text", id="no message"),
        pytest.param(always(chat(None)), "has no text", id="no text"),
        pytest.param(always(chat({"a": 1}, "tool_calls")), "finish_reason tool_calls", id="tool call"),
        pytest.param(half, "is no JSON", id="half"),
        pytest.param(half_a_line, "failed", id="half a line"),
        pytest.param(half_a_chunk, "failed", id="half a chunk"),
        pytest.param(nonsense_chunk, "failed", id="nonsense chunk"),
        pytest.param(hang_up, "the connection failed", id="hang up"),
    ],
)
def test_what_fails_in_passing_is_tried_again_and_then_given_up(
    endpoint: Endpoint, renderer: Renderer, answer: Answer, reason: str
) -> None:
    endpoint.answer = answer
    engine = engine_at(endpoint, renderer)
    said = failure_of(engine)
    assert reason in said
    assert f"base_url '{endpoint.url}', model 'm': given up after 3 attempts" in said
    assert len(endpoint.seen) == 3
    assert (engine.retries, engine.failures) == (2, 1)
    # And the next may be well.
    endpoint.answer = always(chat("none"))
    completion_of(engine)


@pytest.mark.parametrize("answer", [hang, drip, drip_headers])
def test_no_attempt_takes_longer_than_its_time_limit(endpoint: Endpoint, renderer: Renderer, answer: Answer) -> None:
    endpoint.answer = answer
    began = time.monotonic()
    assert "within 0.3 seconds" in failure_of(engine_at(endpoint, renderer, timeout=0.3, max_retries=0))
    assert time.monotonic() - began < 0.8


def test_nobody_listens(renderer: Renderer) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        engine = OpenAIEngine(renderer, base_url=url, model="m", api="chat", max_retries=1, first_wait=0.01)
        assert "ConnectionRefusedError" in failure_of(engine)


def test_a_refused_request_fails_alone_and_at_once(endpoint: Endpoint, renderer: Renderer) -> None:
    text = "This model's maximum context length is 10 tokens."
    endpoint.answer = always({"error": {"message": text}}, 400)
    assert "refuses the request: status 400 (This model's maximum" in failure_of(engine_at(endpoint, renderer))
    assert len(endpoint.seen) == 1


def test_token_ids_that_the_policy_lacks_are_a_failure(endpoint: Endpoint, renderer: Renderer) -> None:
    endpoint.answer = always(text_reply("", token_ids=[5, 10**8]))
    assert "set policy to the model" in failure_of(engine_at(endpoint, renderer, api="completions"))


@pytest.mark.parametrize("ids", [[], [-1], [True], [1.5], ["5"], "5", {"0": 5}])
def test_nonsense_for_token_ids_leaves_the_text(endpoint: Endpoint, renderer: Renderer, ids: object) -> None:
    endpoint.answer = always(text_reply("none", "length", token_ids=ids))
    assert completion_of(engine_at(endpoint, renderer, api="completions")).token_ids == renderer.content_ids("none")


@pytest.mark.parametrize(
    ("status", "body", "remedy"),
    [
        (401, {"error": {"message": f"Incorrect API key provided: {KEY[:8]}****"}}, "'ENDPOINT_KEY' to a valid key"),
        (403, {"error": {"message": f"no right: {KEY}"}}, "has no right"),
        (404, {"error": {"message": "The model `m` does not exist.", "code": "model_not_found"}}, "check base_url"),
        (404, {"detail": "Not Found"}, "check base_url"),
        (405, b"", "check base_url"),
        (402, {"error": {"message": "Insufficient Balance"}}, "nothing left to spend"),
        (429, {"error": {"message": "quota", "code": "insufficient_quota"}}, "nothing left to spend"),
        (400, {"error": {"message": "Model Not Exist"}}, "check model"),
        (400, {"detail": "Server is pinned to 'other'; requested 'm'."}, "check model"),
        (308, b"", "set base_url to where it is now"),
    ],
)
def test_what_no_attempt_mends_is_said_at_once(
    endpoint: Endpoint, renderer: Renderer, monkeypatch: pytest.MonkeyPatch, status: int, body: Any, remedy: str
) -> None:
    monkeypatch.setenv("ENDPOINT_KEY", KEY)
    endpoint.answer = always(body, status)
    engine = engine_at(endpoint, renderer, api_key_env="ENDPOINT_KEY")
    engine.submit(request_of())
    with pytest.raises(UserError) as caught:
        engine.step()
    assert remedy in str(caught.value)
    assert f"base_url '{endpoint.url}', model 'm'" in str(caught.value)
    assert KEY[:8] not in str(caught.value)
    assert len(endpoint.seen) == 1


def test_the_key_is_sent_and_never_shown(
    endpoint: Endpoint, renderer: Renderer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ENDPOINT_KEY", f" {KEY}\n")

    def answer(handler: Handler, body: dict[str, Any]) -> None:
        handler.reply({"error": {"message": f"you sent {handler.headers['Authorization']}"}}, 500)

    endpoint.answer = answer
    with caplog.at_level(logging.DEBUG):
        engine = engine_at(endpoint, renderer, api_key_env="ENDPOINT_KEY")
        said = failure_of(engine)
    assert endpoint.seen[0][2]["Authorization"] == f"Bearer {KEY}"
    assert "you sent Bearer [key]" in said
    assert KEY not in said + repr(engine) + str(engine) + caplog.text


def test_without_a_key_none_is_sent(endpoint: Endpoint, renderer: Renderer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    completion_of(engine_at(endpoint, renderer))
    assert "Authorization" not in endpoint.seen[0][2]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"base_url": "localhost:8000"}, "base_url is 'localhost:8000'"),
        ({"base_url": "http://[::1"}, "base_url cannot be read"),
        ({"base_url": "http://a:99999/v1"}, "base_url cannot be read"),
        ({"base_url": "http://a/v 1"}, "base_url is"),
        ({"base_url": 3}, "base_url is 3"),
        ({"model": ""}, "model is ''"),
        ({"api": "chats"}, "did you mean 'chat'?"),
        ({"timeout": 0}, "timeout is 0"),
        ({"timeout": "long"}, "timeout is 'long'"),
        ({"max_retries": 1.5}, "max_retries is 1.5"),
        ({"max_retries": True}, "max_retries is True"),
        ({"price_in": float("nan")}, "price_in is nan"),
        ({"requests_per_minute": -1}, "requests_per_minute is -1"),
        ({"extra": [1]}, "extra is [1]"),
        ({"extra": {"stream": True}}, "extra has 'stream'"),
        ({"extra": {"a": {1, 2}}}, "extra cannot be written as JSON"),
    ],
)
def test_settings_that_cannot_work_are_refused(renderer: Renderer, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        OpenAIEngine(renderer, **{"base_url": "http://localhost:1/v1", "model": "m", **settings})
    assert said in str(caught.value)


def test_secrets_in_the_wrong_place_are_refused_unrepeated(renderer: Renderer, monkeypatch: pytest.MonkeyPatch) -> None:
    for url in (f"http://me:{KEY}@localhost/v1", f"http://localhost/v1?key={KEY}"):
        with pytest.raises(UserError) as caught:
            OpenAIEngine(renderer, base_url=url, model="m")
        assert KEY not in str(caught.value)
    monkeypatch.setenv("ENDPOINT_KEY", f"{KEY}\r\nX: y")
    with pytest.raises(UserError) as caught:
        OpenAIEngine(renderer, base_url="http://localhost/v1", model="m", api_key_env="ENDPOINT_KEY")
    assert KEY not in str(caught.value)


def test_episodes_are_the_embedded_engines(endpoint: Endpoint, policy: Policy, renderer: Renderer) -> None:
    """Whole episodes with compactions through the driver: the same tokens, wherever they are sampled."""
    endpoint.answer = serving(policy, renderer, 0.0, "token_ids")
    rows = list(tasks("eval", 3, 300, ["find"]))
    played = [
        collect(jobs(rows, Recall, SelfSummary(16), 0), {"policy": engine}, renderer, Limits(window=256, act_tokens=8))
        for engine in (
            engine_at(endpoint, renderer, api="completions", max_sessions=3, timeout=60),
            embedded(policy, renderer),
        )
    ]
    for one, other in zip(*played, strict=True):
        assert one.compactions
        sampled = [
            [turn.sampled_ids for segment in episode.segments for turn in segment.turns] for episode in (one, other)
        ]
        assert sampled[0] == sampled[1]
        assert (one.status, one.compactions) == (other.status, other.compactions)


def setup_of(**changes: Any) -> Setup:
    fields = {"output_dir": "unused", "policy": "tiny", "engine": "openai", "tasks": ["recall"], "lengths": [100]}
    return Setup(EvalArguments(**{**fields, **changes}))


def test_an_evaluation_finds_its_endpoint(endpoint: Endpoint) -> None:
    kwargs = {"base_url": endpoint.url, "model": "m", "api": "chat", "frozen_model": "f"}
    setup = setup_of(
        engine_kwargs=kwargs, frozen_policy="elsewhere", strategies=["frozen_summary"], sessions=3, window=2048
    )
    engines = setup.engines(setup.way("frozen_summary"))
    assert set(engines) == {"policy", "frozen"}
    for name, model in (("policy", "m"), ("frozen", "f")):
        engine = engines[name]
        assert isinstance(engine, OpenAIEngine)
        assert engine.max_sessions == 3
        completion_of(engine)
        assert endpoint.seen[-1][3]["model"] == model


@pytest.mark.parametrize(
    ("kwargs", "changes", "said"),
    [
        ({"base_url": "http://a/v1"}, {}, "engine 'openai' needs 'model'"),
        ({"model": "m"}, {}, "engine 'openai' needs 'base_url'"),
        ({"base_url": "http://a/v1", "model": "m", "time_out": 3}, {}, "did you mean 'timeout'?"),
        ({"base_url": "http://a/v1", "model": "m", "frozen_model": "f"}, {}, "frozen_policy names no other policy"),
        ({"base_url": "http://a/v1", "model": "m"}, {"frozen_policy": "b"}, "set frozen_model in engine_kwargs"),
    ],
)
def test_an_evaluations_mistakes_are_said(kwargs: dict[str, Any], changes: dict[str, Any], said: str) -> None:
    setup = setup_of(engine_kwargs=kwargs, strategies=["frozen_summary"], window=2048, **changes)
    with pytest.raises(UserError) as caught:
        setup.engines(setup.way("frozen_summary"))
    assert said in str(caught.value)


@pytest.mark.slow
@pytest.mark.skipif(
    any(find_spec(name) is None for name in ("fastapi", "uvicorn", "openai")),
    reason="needs the extras of `transformers serve`: pip install -c constraints.txt 'transformers[serving]'",
)
def test_a_served_model_says_what_the_embedded_one_does(policy: Policy, renderer: Renderer, tmp_path: Path) -> None:
    """Against `transformers serve`, which takes text alone: chat, greedy. Its completions endpoint takes no ids."""
    folder = str(tmp_path / "tiny")
    policy.model.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", folder, "--port", str(port)]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--device", "cpu", "--dtype", "float32"],
            stdout=log,
            stderr=log,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _until_healthy(url, server, tmp_path / "log")
        wanted = requests_for(renderer)
        expected = expected_from(policy, renderer, wanted)
        engine = OpenAIEngine(renderer, base_url=url, model=folder, api="chat", max_sessions=4, timeout=60)
        for one, other in zip(sample(engine, wanted), expected, strict=True):
            assert (one.token_ids, one.finish) == (other.token_ids, other.finish)
        assert engine.prompt_tokens == sum(len(request.token_ids) for request in wanted)
        assert engine.completion_tokens == sum(len(completion.token_ids) for completion in expected)

        completions = OpenAIEngine(renderer, base_url=url, model=folder, api="completions", timeout=60)
        assert "prompt must be a string" in failure_of(completions)
        wrong = OpenAIEngine(renderer, base_url=url, model="another", api="chat", timeout=60)
        wrong.submit(request_of())
        with pytest.raises(UserError, match="model 'another'"):
            wrong.step()
    finally:
        server.terminate()
        server.wait(30)


def _until_healthy(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(240):
        assert server.poll() is None, log.read_text()
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=5) as reply:
            if reply.status == 200:
                return
        time.sleep(0.5)
    raise AssertionError(log.read_text())
