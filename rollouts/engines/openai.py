"""An engine elsewhere: samples from any endpoint that speaks OpenAI's protocol. For evaluation only.

Two protocols. ``completions`` posts the context's token ids and asks for the sampled ids: tokens in, tokens out, exact
where the endpoint gives ids (vLLM's ``return_token_ids``). ``chat`` posts messages, and the endpoint renders the whole
conversation anew with its own template, so what the model reads may differ from ``token_ids``, and a window may hold a
few tokens more or fewer there than are counted here. A reply that comes as text alone is encoded with the policy's
tokenizer, so that its tokens are counted; :attr:`OpenAIEngine.encoded_again` says how many did.

Log-probabilities are the endpoint's own, mostly under temperature 1; 0.0 where none come back, or not one a token.

Deliberately left out: streaming, proxies, and a cache of sessions (the endpoint has its own).
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import queue
import random
import re
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from rollouts.engine import Completion, EngineFailure, SampleRequest
from rollouts.engines.openai_reply import PassingFailure, Reply, at, error_text, json_of, parsed, without
from rollouts.episode import Finish
from rollouts.rendering import Renderer
from summarization.messages import Message
from summarization.resolve import UserError, closest
from summarization.trigger import uniform_draw

APIS = ("completions", "chat")
LONGEST_WAIT = 600.0
"""The most seconds between two attempts, whatever ``Retry-After`` says."""
LARGEST_REPLY = 2**26
"""The most bytes read of a reply."""
ASK_FOR_IDS: Mapping[str, Any] = {"logprobs": 1, "return_token_ids": True, "return_tokens_as_token_ids": True}
"""Asked of ``completions``; left away where the endpoint refuses it."""
CONTINUES = ("continue_final_message", "add_generation_prompt")
OWN_FIELDS = ("model", "prompt", "messages", "stream", "n")
MISTAKES = {
    301: "it moved; set base_url to where it is now",
    302: "it moved; set base_url to where it is now",
    307: "it moved; set base_url to where it is now",
    308: "it moved; set base_url to where it is now",
    401: "set the environment variable '{key}' to a valid key",
    402: "the account has nothing left to spend",
    403: "the key in the environment variable '{key}' has no right to it",
    404: "no such path or no such model; check base_url (does it end in /v1?), model and api",
    405: "no such path; check base_url (does it end in /v1?) and api",
}
"""Statuses that no second attempt changes, with the remedy."""
UNKNOWN_MODEL = re.compile(
    r"model\b.*\bnot (exist|found)|(unknown|invalid|no such|not a valid) model|is pinned to", re.IGNORECASE
)
"""How endpoints that answer 400 or 422 say that they have no such model."""

_log = logging.getLogger(__name__)


class _Refused(Exception):
    """The endpoint does not take this very request."""


@dataclass(frozen=True)
class _Dialect:
    """What the endpoint was found to take.

    Attributes:
        ids: It takes ``ASK_FOR_IDS``.
        limit: What it calls the most tokens to sample.
    """

    ids: bool = True
    limit: str = "max_tokens"


class OpenAIEngine:
    """Samples from an OpenAI-compatible endpoint. See :class:`rollouts.engine.Engine`.

    A chat's answer prefix is written at the end of the last user message, and a reply that repeats it loses the
    repetition. With ``continue_final_message: true`` in ``extra`` (vLLM, SGLang) the assistant's turn begins with it.

    Args:
        renderer: For the policy's tokenizer.
        base_url: Of the endpoint, ``/v1`` included (it is added where there is no path).
        model: Its name there.
        api: ``completions`` or ``chat``.
        api_key_env: Environment variable that holds the key; without it no key is sent.
        max_retries: Further attempts after a first that failed in passing.
        timeout: The most seconds of one attempt.
        requests_per_minute: Attempts begun in a minute; 0 for no limit.
        price_in: Of a million prompt tokens.
        price_out: Of a million completion tokens.
        extra: Merged into each request's body; None takes a field away.
        temperature: Of sampling; 0 is greedy.
        max_sessions: Requests in flight at once.
        seed: Sent with session and position mixed in, unless greedy.
        first_wait: Seconds before the second attempt; doubled for each further one, with jitter.

    Attributes:
        requests: Requests answered.
        retries: Attempts after the first.
        failures: Requests that became an :class:`EngineFailure`.
        encoded_again: Replies that came as text alone.
        prompt_tokens: Of all replies, as the endpoint counts them, or as we do where it does not say.
        completion_tokens: Likewise.

    Raises:
        UserError: A setting cannot work.
    """

    def __init__(
        self,
        renderer: Renderer,
        *,
        base_url: str,
        model: str,
        api: str = "completions",
        api_key_env: str = "OPENAI_API_KEY",
        max_retries: int = 5,
        timeout: float = 300.0,
        requests_per_minute: float = 0.0,
        price_in: float = 0.0,
        price_out: float = 0.0,
        extra: Mapping[str, Any] | None = None,
        temperature: float = 0.0,
        max_sessions: int = 16,
        seed: int = 0,
        first_wait: float = 1.0,
    ) -> None:
        settings = {
            "max_retries": max_retries,
            "timeout": timeout,
            "requests_per_minute": requests_per_minute,
            "price_in": price_in,
            "price_out": price_out,
        }
        for name, value in settings.items():
            number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9
            if not number or (name == "timeout" and value == 0) or (name == "max_retries" and value % 1):
                raise UserError(f"engine_kwargs: {name} is {value!r}: must be a number of at least 0 (timeout above 0)")
        for name, value in (("base_url", base_url), ("model", model), ("api_key_env", api_key_env)):
            if not isinstance(value, str) or not value.strip():
                raise UserError(f"engine_kwargs: {name} is {value!r}: must be a text")
        if api not in APIS:
            raise UserError(f"engine_kwargs: api is {api!r}: {closest(str(api), list(APIS))}")
        self._renderer = renderer
        secure, self._host, self._port, self._path = _address(base_url)
        self._tls = ssl.create_default_context() if secure else None
        self._path += "/completions" if api == "completions" else "/chat/completions"
        self._model, self._api, self._key_name = model, api, api_key_env
        self._named = f"base_url '{base_url}', model '{model}'"
        self._key = _key(api_key_env)
        self._retries, self._timeout, self._first_wait = int(max_retries), timeout, first_wait
        self._prices = (price_in, price_out)
        self._extra = _checked_extra(extra)
        self._temperature, self._max_sessions, self._seed = temperature, max_sessions, seed
        self._dialect = _Dialect()
        self._pace = _Pace(60.0 / requests_per_minute if requests_per_minute else 0.0)
        self._stopped = threading.Event()
        self._waiting: deque[SampleRequest] = deque()
        self._in_flight = 0
        self._done: queue.SimpleQueue[tuple[SampleRequest, Reply | EngineFailure | Exception, int]] = (
            queue.SimpleQueue()
        )
        self.requests = self.retries = self.failures = self.encoded_again = 0
        self.prompt_tokens = self.completion_tokens = 0

    @property
    def max_sessions(self) -> int:
        """Requests in flight at once."""
        return self._max_sessions

    @property
    def cost(self) -> float:
        """Of all replies so far, in the currency of the prices."""
        return (self.prompt_tokens * self._prices[0] + self.completion_tokens * self._prices[1]) / 1e6

    def submit(self, request: SampleRequest) -> None:
        """Send a request, or queue it while ``max_sessions`` are in flight."""
        if self._api == "chat" and not request.messages:
            raise ValueError(f"session {request.session}: api 'chat' needs the request's messages")
        self._waiting.append(request)
        self._start()

    def step(self) -> list[tuple[SampleRequest, Completion | EngineFailure]]:
        """Wait until a request is finished, and return all that are.

        Raises:
            UserError: The endpoint refuses the key, the path or the model.
        """
        done: list[tuple[SampleRequest, Completion | EngineFailure]] = []
        while self._in_flight and not (done and self._done.empty()):
            request, outcome, attempts = self._done.get()
            self._in_flight -= 1
            self.requests += 1
            self.retries += attempts - 1
            if isinstance(outcome, Exception):
                self._stopped.set()
                self._waiting.clear()
                raise outcome
            completion = self._completion(request, outcome) if isinstance(outcome, Reply) else outcome
            self.failures += isinstance(completion, EngineFailure)
            done.append((request, completion))
            self._start()
        return done

    def release(self, session: str) -> None:
        """Nothing is kept of a session."""

    def _start(self) -> None:
        """Bring waiting requests on their way."""
        while self._waiting and self._in_flight < self._max_sessions:
            self._in_flight += 1
            # Daemons, so that an interrupted run does not wait for the endpoint.
            threading.Thread(target=self._serve, args=(self._waiting.popleft(),), daemon=True).start()

    def _serve(self, request: SampleRequest) -> None:
        """Answer one request; runs in a thread of its own and touches no counter."""
        attempts = 1
        dialect = self._dialect
        outcome: Reply | EngineFailure | Exception | None = None
        while outcome is None:
            self._pace.wait(self._stopped)
            try:
                outcome = self._attempt(request, dialect)
                if dialect != _Dialect():
                    self._dialect = dialect
            except _Refused as refusal:
                simpler = self._simpler(dialect, str(refusal))
                if simpler == dialect:
                    outcome = EngineFailure(f"{self._named}: the endpoint refuses the request: {refusal}")
                dialect = simpler
            except PassingFailure as failure:
                if attempts > self._retries or self._stopped.is_set():
                    times = "1 attempt" if attempts == 1 else f"{attempts} attempts"
                    outcome = EngineFailure(f"{self._named}: given up after {times}: {failure}")
                else:
                    wait = min(failure.wait or 0.0, LONGEST_WAIT)
                    self._pace.hold(wait)
                    back_off = min(self._first_wait * 2.0 ** min(attempts - 1, 32), LONGEST_WAIT)
                    self._stopped.wait(max(wait, back_off * random.uniform(0.5, 1.0)))
                    attempts += 1
            except Exception as error:
                # A thread cannot raise to its caller: `step` does.
                outcome = error
        self._done.put((request, outcome, attempts))

    def _simpler(self, dialect: _Dialect, refusal: str) -> _Dialect:
        """What to try after a refusal; the same dialect where nothing is left."""
        if dialect.limit == "max_tokens" and "max_completion_tokens" in refusal:
            return replace(dialect, limit="max_completion_tokens")
        return replace(dialect, ids=False) if self._api == "completions" else dialect

    def _attempt(self, request: SampleRequest, dialect: _Dialect) -> Reply:
        """Post once.

        Raises:
            PassingFailure: Another attempt may help.
            _Refused: The endpoint refuses this request.
            UserError: No request to it can work.
        """
        status, wait, payload = self._post(json.dumps(self._body(request, dialect)).encode())
        if status == 200:
            return parsed(payload, self._shown)
        fields = json_of(payload)
        code = at(fields, "error", "code")
        text = self._shown(error_text(fields) or payload.decode("utf-8", "replace"))
        if status in MISTAKES or code == "insufficient_quota":
            remedy = MISTAKES.get(status, MISTAKES[402]).format(key=self._key_name)
            # Some endpoints repeat part of the key when they refuse it.
            said = f" ({text})" if text and status not in (401, 403) else ""
            raise UserError(f"engine_kwargs: {self._named}: the endpoint answers {status}{said}: {remedy}")
        if status in (408, 409, 425, 429) or status >= 500:
            raise PassingFailure(f"status {status}" + (f" ({text})" if text else ""), wait)
        if code == "model_not_found" or (UNKNOWN_MODEL.search(text) and "token" not in text):
            raise UserError(f"engine_kwargs: {self._named}: the endpoint answers {status} ({text}): check model")
        raise _Refused(f"status {status}" + (f" ({text})" if text else ""))

    def _body(self, request: SampleRequest, dialect: _Dialect) -> dict[str, Any]:
        body: dict[str, Any] = {dialect.limit: request.max_tokens, "temperature": self._temperature}
        if self._temperature > 0:
            key = (self._seed, request.session, request.seed, len(request.token_ids))
            body["seed"] = int(uniform_draw("openai", *key) * 2**31)
        if self._api == "completions":
            body.update(prompt=list(request.token_ids), **(ASK_FOR_IDS if dialect.ids else {}))
        else:
            body["messages"] = [message.as_dict() for message in self._messages(request)]
        body.update(self._extra, model=self._model)
        if not request.prefix:
            # Without a prefix the last message is not the policy's to go on with.
            for name in CONTINUES:
                body.pop(name, None)
        return {name: value for name, value in body.items() if value is not None}

    def _messages(self, request: SampleRequest) -> tuple[Message, ...]:
        if not request.prefix:
            return request.messages
        if self._extra.get("continue_final_message"):
            return (*request.messages, Message("assistant", request.prefix))
        *before, last = request.messages
        if last.role != "user":
            return (*request.messages, Message("user", request.prefix))
        return (*before, Message("user", f"{last.content}\n{request.prefix}", last.name))

    def _post(self, body: bytes) -> tuple[int, float | None, bytes]:
        """Status, seconds that it asks to wait, and the reply, all within the time limit."""
        if self._tls is None:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        else:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._tls)
        late = threading.Event()
        began = time.monotonic()
        timer: threading.Timer | None = None
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Connection": "close"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            connection.connect()
            # A socket's own limit begins anew with each byte; an endpoint that drips would never pass it.
            left = max(0.0, began + self._timeout - time.monotonic())
            timer = threading.Timer(left, _cut_off, (connection.sock, late))
            timer.daemon = True
            timer.start()
            connection.request("POST", self._path, body, headers)
            response = connection.getresponse()
            payload = response.read(LARGEST_REPLY)
            wait = _seconds(response.headers.get("Retry-After"))
        except (OSError, http.client.HTTPException) as error:
            if late.is_set() or isinstance(error, TimeoutError):
                raise PassingFailure(f"no reply within {self._timeout:g} seconds") from error
            if isinstance(error, ssl.SSLCertVerificationError):
                raise UserError(f"engine_kwargs: {self._named}: its certificate is not valid ({error})") from error
            raise PassingFailure(
                f"the connection failed ({self._shown(f'{type(error).__name__}: {error}')})"
            ) from error
        finally:
            if timer is not None:
                timer.cancel()
            connection.close()
        if late.is_set():
            raise PassingFailure(f"no whole reply within {self._timeout:g} seconds")
        return response.status, wait, payload

    def _shown(self, text: str) -> str:
        """What an endpoint says, as part of a sentence and without the key."""
        text = text.replace(self._key, "[key]") if self._key else text
        text = " ".join(re.sub(r"[^ -~\xa1-\U0010ffff]", " ", text).split()).rstrip(". ")
        return text if len(text) <= 200 else f"{text[:200]} ..."

    def _completion(self, request: SampleRequest, reply: Reply) -> Completion | EngineFailure:
        """The reply as token ids of the policy's tokenizer, and the accounts."""
        stops = self._renderer.stop_ids
        ids = reply.token_ids
        if ids is None:
            if not self.encoded_again and self._api == "completions":
                _log.warning("%s: no token ids come back: replies are encoded again", self._named)
            self.encoded_again += 1
            ids = self._renderer.content_ids(without(reply.text, request.prefix if self._api == "chat" else ""))
        most = request.max_tokens
        self.prompt_tokens += len(request.token_ids) if reply.prompt_tokens is None else reply.prompt_tokens
        self.completion_tokens += len(ids) if reply.completion_tokens is None else reply.completion_tokens
        if any(token >= len(self._renderer.tokenizer) for token in ids):
            return EngineFailure(
                f"{self._named}: the reply has token {max(ids)}, which the policy's tokenizer "
                f"'{self._renderer.name}' lacks: set policy to the model that the endpoint serves"
            )
        logprobs = reply.logprobs if len(reply.logprobs) == len(ids) else (0.0,) * len(ids)
        end = next((index + 1 for index, token in enumerate(ids) if token in stops), None)
        if end is not None:
            ids, logprobs, stopped = ids[:end], logprobs[:end], end <= most
        else:
            stopped = len(ids) <= most and reply.finish != "length" and (reply.finish == "stop" or len(ids) < most)
            if stopped:
                # Most endpoints keep the stop token to themselves, and its log-probability with it.
                closing = self._renderer.closing_ids[:1]
                ids, logprobs = (*ids, closing[0] if closing and closing[0] in stops else min(stops)), (*logprobs, 0.0)
        return Completion(ids[:most], logprobs[:most], Finish.STOP if stopped else Finish.LENGTH)


class _Pace:
    """When attempts may begin: so many seconds apart, and not while the endpoint asks to wait.

    Args:
        apart: Seconds.
    """

    def __init__(self, apart: float) -> None:
        self._apart = apart
        self._free_at = 0.0
        self._lock = threading.Lock()

    def hold(self, seconds: float) -> None:
        """Let none begin for so long."""
        if seconds:
            with self._lock:
                self._free_at = max(self._free_at, time.monotonic() + seconds)

    def wait(self, stopped: threading.Event) -> None:
        """Return when one may begin."""
        while True:
            with self._lock:
                now = time.monotonic()
                if now >= self._free_at:
                    self._free_at = now + self._apart
                    return
                pause = self._free_at - now
            if stopped.wait(pause):
                return


def _address(base_url: str) -> tuple[bool, str, int, str]:
    """Whether by TLS, host, port and path."""
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError as error:
        raise UserError(f"engine_kwargs: base_url cannot be read ({error}): write http://host:port/v1") from error
    if parts.username or parts.password or parts.query or parts.fragment:
        # Not repeated: such an address may hold a key.
        raise UserError("engine_kwargs: base_url has a user, a query or a fragment: write http://host:port/v1")
    plain = all(33 <= ord(letter) < 127 for letter in base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain:
        raise UserError(f"engine_kwargs: base_url is {base_url!r}: write http://host:port/v1")
    secure = parts.scheme == "https"
    return secure, parts.hostname, port or (443 if secure else 80), parts.path.rstrip("/") or "/v1"


def _key(name: str) -> str:
    """The key, empty where there is none; what cannot stand in a header is refused without being repeated."""
    key = os.environ.get(name, "").strip()
    if not all(33 <= ord(letter) < 127 for letter in key):
        raise UserError(f"engine_kwargs: api_key_env is '{name}': that variable holds characters no key can have")
    return key


def _checked_extra(extra: Mapping[str, Any] | None) -> dict[str, Any]:
    if not isinstance(extra, Mapping | None):
        raise UserError(f"engine_kwargs: extra is {extra!r}: must be a mapping of fields of the request")
    for name in extra or {}:
        if name in OWN_FIELDS:
            raise UserError(f"engine_kwargs: extra has '{name}', which the engine sets itself: take it out")
    try:
        return json.loads(json.dumps(dict(extra or {}), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise UserError(f"engine_kwargs: extra cannot be written as JSON ({error})") from error


def _cut_off(connected: socket.socket, late: threading.Event) -> None:
    """End whatever waits for the socket."""
    late.set()
    with suppress(OSError):
        # The plain socket's, since a TLS socket's own would wait its turn.
        socket.socket.shutdown(connected, socket.SHUT_RDWR)


def _seconds(text: str | None) -> float | None:
    """``Retry-After``, in seconds or as a date; None where it says neither."""
    if text is None:
        return None
    with suppress(ValueError, TypeError, OverflowError):
        seconds = float(text) if re.fullmatch(r"\s*[\d.]+\s*", text, re.ASCII) else None
        if seconds is None:
            date = parsedate_to_datetime(text)
            seconds = ((date if date.tzinfo else date.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds()
        return max(0.0, seconds)
    return None
