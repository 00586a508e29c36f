"""The embedded engine: samples from a ``transformers`` model in this process, on CPU or GPU.

Each session keeps its keys and values in a slot (:mod:`rollouts.engines.slots`) over all its requests, so that within
a segment no token is forwarded twice, and every forward serves all sessions that can move.

Deliberately left out: paged memory (a window bounds every slot) and anything but full attention.
"""

from __future__ import annotations

import heapq
import inspect
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.cache_utils import get_layer_types_and_kwargs

from rollouts.engine import Completion, EngineFailure, SampleRequest
from rollouts.engines.draws import draw
from rollouts.engines.heap import keep_freed_memory
from rollouts.engines.last_layer import LastLayer
from rollouts.engines.slots import Plan, SlotCache
from rollouts.episode import Finish
from summarization.resolve import UserError
from summarization.trigger import uniform_draw

CPU_PREFILL_TOKENS, GPU_PREFILL_TOKENS = 4096, 16384
"""What ``prefill_tokens`` is by default."""

MASK_ENTRIES = 2**27
"""The most entries of one attention mask; prompts are forwarded in parts where it would grow larger."""


@dataclass(eq=False)
class _Session:
    """One window: what its slot holds, and the request being served.

    Attributes:
        ids: The whole context, sampled tokens included.
        cached: How many of ``ids`` have their keys and values in the slot.
        key: Of the random draws of the present request.
    """

    name: str
    slot: int
    ids: list[int] = field(default_factory=list)
    cached: int = 0
    request: SampleRequest | None = None
    key: int = 0
    sampled: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


def cache_argument(model: torch.nn.Module) -> str:
    """What a forward pass calls its cache; releases of transformers differ in the name."""
    return "cache" if "cache" in inspect.signature(type(model).forward).parameters else "past_key_values"


class TransformersEngine:
    """Samples many sessions at once from one model. See :class:`rollouts.engine.Engine`.

    Args:
        model: Any causal language model with full attention. Its weights may change between requests; call
            :meth:`reset` then.
        window: W, the most tokens of a context.
        stop_ids: Tokens that end a sample; they are part of it.
        temperature: Of sampling and of the log-probabilities; 0 takes the likeliest token, with log-probabilities
            under temperature 1.
        max_sessions: How many sessions it holds at once, each in a slot of W positions.
        seed: Of all draws, together with the request's own.
        prefill_tokens: The most tokens, padding included, of one forward of new context; None for what suits the
            device: few on a CPU, whose caches they should not leave by far, many on a GPU.
        autocast: Compute under this dtype (``torch.bfloat16``); None for the weights' own.

    Attributes:
        forwarded_tokens: Tokens forwarded, without padding.
        padded_tokens: Padding forwarded beside them.
        shared_tokens: Tokens not forwarded because another session of the same step had the same context.
        sampled_tokens: Tokens sampled.
        decode_steps: Forwards of one token a session.
        seconds: Spent sampling.

    Raises:
        UserError: The model has layers other than full attention, or fewer positions than the window.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        window: int,
        stop_ids: Collection[int],
        temperature: float = 1.0,
        max_sessions: int = 64,
        seed: int = 0,
        prefill_tokens: int | None = None,
        autocast: torch.dtype | None = None,
    ) -> None:
        if temperature < 0:
            raise UserError(f"temperature is {temperature}, must be 0 (greedy) or above")
        if prefill_tokens is not None and (not isinstance(prefill_tokens, int) or prefill_tokens < 1):
            raise UserError(f"prefill_tokens is {prefill_tokens!r}, must be a whole number of at least 1")
        self._model = model
        self._layers = _check_model(model, window)
        self._last_layer = LastLayer(model)
        self._window = window
        self._stop_ids = frozenset(stop_ids)
        self._temperature = temperature
        self._max_sessions = max_sessions
        self._seed = seed
        on_cpu = model.device.type == "cpu"
        if on_cpu:
            keep_freed_memory()
        self._prefill_tokens = prefill_tokens or (CPU_PREFILL_TOKENS if on_cpu else GPU_PREFILL_TOKENS)
        self._autocast = autocast
        self._cache_argument = cache_argument(model)
        self.forwarded_tokens = 0
        self.padded_tokens = 0
        self.shared_tokens = 0
        self.sampled_tokens = 0
        self.decode_steps = 0
        self.seconds = 0.0
        self.reset()

    @property
    def max_sessions(self) -> int:
        """How many sessions it can hold at once."""
        return self._max_sessions

    def reset(self) -> None:
        """Forget all sessions and give back their memory: the weights changed. Pending requests are dropped."""
        self._sessions: dict[str, _Session] = {}
        self._waiting: list[_Session] = []
        self._active: list[_Session] = []
        self._free: list[int] = list(range(self._max_sessions))
        self._cache = SlotCache(self._layers, self._window, self._autocast)

    def submit(self, request: SampleRequest) -> None:
        """Queue a request; it takes part from the next :meth:`step` on.

        Raises:
            AssertionError: The request passes the window, breaks its session's prefix, comes while the session is
                being sampled, or is of one session too many.
        """
        ids = list(request.token_ids)
        if not ids or request.max_tokens < 1 or len(ids) + request.max_tokens > self._window:
            raise AssertionError(
                f"session {request.session}: a context of {len(ids)} tokens and a sample of up to "
                f"{request.max_tokens} in a window of {self._window}"
            )
        session = self._sessions.get(request.session)
        if session is None:
            if not self._free:
                raise AssertionError(f"all {self._max_sessions} sessions are taken: release one")
            session = _Session(request.session, heapq.heappop(self._free))
            self._sessions[request.session] = session
        if session.request is not None:
            raise AssertionError(f"session {request.session} is being sampled already")
        if ids[: len(session.ids)] != session.ids:
            raise AssertionError(f"session {request.session}: the request does not extend what came before")
        session.ids = ids
        session.request = request
        session.key = int(uniform_draw("sample", self._seed, request.seed, request.session) * 2**53)
        session.sampled, session.logprobs = [], []
        self._waiting.append(session)

    def release(self, session: str) -> None:
        """Forget a session and free its slot; unknown ones are ignored."""
        gone = self._sessions.pop(session, None)
        if gone is not None:
            heapq.heappush(self._free, gone.slot)
            self._waiting = [other for other in self._waiting if other is not gone]
            self._active = [other for other in self._active if other is not gone]

    def step(self) -> list[tuple[SampleRequest, Completion | EngineFailure]]:
        """Prefill what was submitted, then decode until at least one request is finished, and return those.

        Raises:
            FloatingPointError: The model's logits are not finite.
        """
        done: list[tuple[SampleRequest, Completion | EngineFailure]] = []
        if self._waiting or self._active:
            began = time.perf_counter()
            with self._sampling():
                done += self._prefill()
                if not done:
                    done += self._decode()
            self.seconds += time.perf_counter() - began
        return done

    @contextmanager
    def _sampling(self) -> Iterator[None]:
        """Put the model into the state for sampling, and back."""
        training = [module for module in self._model.modules() if module.training] if self._model.training else []
        config = self._model.config
        attention = config._attn_implementation
        device = self._model.device.type
        # Other kernels take no mask of ours.
        if attention not in ("sdpa", "eager"):
            config._attn_implementation = "sdpa" if self._model._supports_sdpa else "eager"
        for module in training:
            module.training = False
        try:
            with torch.no_grad(), torch.autocast(device, self._autocast) if self._autocast else nullcontext():
                yield
        finally:
            config._attn_implementation = attention
            for module in training:
                module.training = True

    def _prefill(self) -> list[tuple[SampleRequest, Completion | EngineFailure]]:
        """Forward all new context and sample one token each."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return []
        self._cache.reserve(1 + max(session.slot for session in waiting), self._max_sessions)
        followers: dict[int, list[_Session]] = {}
        leaders: dict[tuple[int, ...], _Session] = {}
        extending: list[_Session] = []
        for session in waiting:
            if session.cached:
                extending.append(session)
                continue
            leader = leaders.setdefault(tuple(session.ids), session)
            if leader is not session:
                followers.setdefault(leader.slot, []).append(session)
        for session in [*leaders.values(), *extending]:
            limit = self._limit(len(session.ids))
            while len(session.ids) - session.cached > limit:
                self._forward_new([session], [limit])
                if session not in extending:
                    extending.append(session)
        fresh = [session for session in leaders.values() if not session.cached]
        done = []
        for group in [*self._groups(fresh), *self._groups(extending)]:
            logits = self._forward_new(group, [len(session.ids) - session.cached for session in group])
            members: list[_Session] = []
            rows: list[int] = []
            for row, leader in enumerate(group):
                copies = followers.get(leader.slot, [])
                if copies:
                    targets = [session.slot for session in copies]
                    self._cache.copy([leader.slot] * len(targets), targets, leader.cached)
                    self.shared_tokens += leader.cached * len(copies)
                    for session in copies:
                        session.cached = leader.cached
                members += [leader, *copies]
                rows += [row] * (1 + len(copies))
            if len(rows) > len(group):
                logits = logits[torch.tensor(rows, device=logits.device)]
            self._active += members
            done += self._accept(members, *self._draw(logits, members)[1:])
        return done

    def _limit(self, length: int) -> int:
        """The most new tokens of one forward whose queries read ``length`` positions."""
        return min(self._prefill_tokens, max(256, MASK_ENTRIES // length))

    def _groups(self, sessions: list[_Session]) -> Iterator[list[_Session]]:
        """Cut sessions into forwards: similar lengths together, so that little is padded."""
        group: list[_Session] = []
        real = 0
        for session in sorted(sessions, key=lambda session: len(session.ids) - session.cached):
            new = len(session.ids) - session.cached
            area = (len(group) + 1) * new
            limit = self._limit(max(len(other.ids) for other in [*group, session]))
            if group and (area > limit or area > 1.25 * (real + new) + 64):
                yield group
                group, real = [], 0
            group.append(session)
            real += new
        if group:
            yield group

    def _forward_new(self, sessions: list[_Session], counts: list[int]) -> torch.Tensor:
        """Forward the next ``counts`` tokens of each session, padded on the right, and return (B, V) last logits."""
        device = self._model.device
        width = max(counts)
        starts = np.array([session.cached for session in sessions])[:, None]
        slots = torch.tensor([session.slot for session in sessions], device=device)
        ids = np.zeros((len(sessions), width), dtype=np.int64)
        for row, (session, count) in enumerate(zip(sessions, counts, strict=True)):
            ids[row, :count] = session.ids[session.cached : session.cached + count]
        steps = np.arange(width)[None]
        real = steps < np.array(counts)[:, None]
        positions = np.minimum(starts + steps, self._window - 1)
        targets = np.where(real, positions, self._cache.trash)
        length = int((starts[:, 0] + counts).max())
        fresh = not starts.any()
        position_ids = torch.from_numpy(positions).to(device)
        # Without anything cached, the plain causal mask hides the padding, which stands on the right.
        mask = None if fresh else self._mask(position_ids, length)
        self._cache.set_plan(Plan(slots, torch.from_numpy(targets).to(device), None if fresh else slots, length))
        last = torch.tensor(counts, device=device) - 1
        with self._last_layer.only(last) if width > 1 else nullcontext():
            logits = self._forward(torch.from_numpy(ids).to(device), position_ids, mask, last[:, None])
        for session, count in zip(sessions, counts, strict=True):
            session.cached += count
        self.forwarded_tokens += sum(counts)
        self.padded_tokens += ids.size - sum(counts)
        return logits

    def _decode(self) -> list[tuple[SampleRequest, Completion | EngineFailure]]:
        """Sample one token after the other for all active sessions until one is finished."""
        self._gather_slots()
        first = min(session.slot for session in self._active)
        count = max(session.slot for session in self._active) + 1 - first
        rows = slice(first, first + count)
        members: list[_Session | None] = [None] * count
        for session in self._active:
            members[session.slot - first] = session
        # Rows without an active session read position 0 and write to the trash.
        tokens = [session.ids[-1] if session else 0 for session in members]
        device = self._model.device
        position = torch.tensor([session.cached if session else 0 for session in members], device=device)
        advance = torch.tensor([1 if session else 0 for session in members], device=device)
        slots = torch.arange(first, first + count, device=device)
        trash = self._cache.trash * (1 - advance)
        current = torch.tensor(tokens, device=device)
        length = max(session.cached for session in self._active)
        while True:
            length += 1
            columns = position[:, None]
            self._cache.set_plan(Plan(slots, columns + trash[:, None], rows, length))
            logits = self._forward(current[:, None], columns, self._mask(columns, length), 1)
            for session in self._active:
                session.cached += 1
            self.decode_steps += 1
            self.forwarded_tokens += len(self._active)
            self.padded_tokens += count - len(self._active)
            current, drawn, logprobs = self._draw(logits, members)
            done = self._accept(members, drawn, logprobs)
            if done:
                return done
            position += advance

    def _gather_slots(self) -> None:
        """Move active sessions together where they are few, so that a decoding step need not cross idle slots."""
        slots = sorted(session.slot for session in self._active)
        count = len(slots)
        if slots[-1] + 1 - slots[0] < 2 * count:
            return
        holes = sorted(set(range(count)) - set(slots))
        moves = dict(zip(slots[-len(holes) :], holes, strict=True)) if holes else {}
        held = {session.slot for session in self._sessions.values()}
        moves |= {hole: slot for slot, hole in moves.items() if hole in held}
        longest = max(session.cached for session in self._sessions.values())
        self._cache.copy(list(moves), list(moves.values()), longest)
        for session in self._sessions.values():
            session.slot = moves.get(session.slot, session.slot)
        taken = {session.slot for session in self._sessions.values()}
        self._free = [slot for slot in range(self._max_sessions) if slot not in taken]

    def _mask(self, positions: torch.Tensor, length: int) -> torch.Tensor:
        """Additive mask (B, 1, Q, length): a query at position p reads positions 0 to p."""
        dtype = self._model.dtype
        hidden = torch.arange(length, device=positions.device) > positions[:, None, :, None]
        return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, torch.finfo(dtype).min)

    def _forward(
        self, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, keep: int | torch.Tensor
    ) -> torch.Tensor:
        """Forward (B, Q) tokens under the present plan and return the logits of one position a row, (B, V)."""
        output = self._model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=keep,
            **{self._cache_argument: self._cache},
        )
        return output.logits[:, 0]

    def _draw(
        self, logits: torch.Tensor, members: Sequence[_Session | None]
    ) -> tuple[torch.Tensor, list[int], list[float]]:
        """Sample one token a row; a row's draws hang on its session and its position alone."""
        keys = [(session.key, len(session.ids)) if session else (0, 0) for session in members]
        return draw(logits, keys, self._temperature)

    def _accept(
        self, members: Sequence[_Session | None], tokens: list[int], logprobs: list[float]
    ) -> list[tuple[SampleRequest, Completion | EngineFailure]]:
        """Append one token to each session and return the requests that it finished."""
        done: list[tuple[SampleRequest, Completion | EngineFailure]] = []
        for session, token, logprob in zip(members, tokens, logprobs, strict=True):
            if session is None or session.request is None:
                continue
            session.ids.append(token)
            session.sampled.append(token)
            session.logprobs.append(logprob)
            self.sampled_tokens += 1
            stopped = token in self._stop_ids
            if stopped or len(session.sampled) == session.request.max_tokens:
                finish = Finish.STOP if stopped else Finish.LENGTH
                done.append((session.request, Completion(tuple(session.sampled), tuple(session.logprobs), finish)))
                session.request = None
        if done:
            self._active = [session for session in self._active if session.request is not None]
        return done


def _check_model(model: PreTrainedModel, window: int) -> int:
    """Return the number of layers, each of which must attend to the whole window."""
    config = model.config
    kinds, arguments = get_layer_types_and_kwargs(config)
    for kind, details in zip(kinds, arguments, strict=True):
        if kind != "full_attention" and details.get("sliding_window", 0) < window:
            raise UserError(
                f"model type '{config.model_type}' has layers of type '{kind}', which do not attend to a whole window "
                f"of {window} tokens: take a model with full attention, or lower window to what the layers see"
            )
    positions = getattr(config, "max_position_embeddings", None)
    if positions is not None and positions < window:
        raise UserError(f"window is {window}, but the model has {positions} positions: lower window")
    return len(kinds)
