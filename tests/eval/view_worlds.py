"""Episodes to look at, and a tokenizer that can spell any text."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

from rollouts.episode import Compaction, Episode, Finish, Segment, Status, Turn, TurnKind
from rollouts.rendering import Renderer
from rollouts.storage import EpisodeWriter
from summarization.messages import Message
from summarization.metrics import held

TEMPLATE = (
    "{%- for m in messages -%}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"
)
FACTS = ("the key is under the mat", "the safe opens at nine")
HOSTILE = (
    "</script><script>window.harmed = 1</script><img src=x onerror='window.harmed = 1'>"
    "<style>*{display:none}</style><!-- <|end|><|system|> & \x1b[31mred\x1b[0m \x00 \u202egnp.exe\u202c {{style}}"
)
LONE = "a lone \ud83d surrogate"


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte, so that a character may take several."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    model = Tokenizer(BPE(vocab={letter: index for index, letter in enumerate(alphabet)}, merges=[]))
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    model.decoder = decoders.ByteLevel()
    roles = [f"<|{role}|>" for role in ("system", "user", "assistant", "tool")]
    made = PreTrainedTokenizerFast(
        tokenizer_object=model,
        eos_token="<|end|>",
        pad_token="<|pad|>",
        additional_special_tokens=roles,
        clean_up_tokenization_spaces=False,
    )
    made.chat_template = TEMPLATE
    return made


def told(
    renderer: Renderer,
    pages: Sequence[str],
    summaries: Sequence[str],
    answer: str,
    facts: Sequence[str] = FACTS,
    reward: float | None = 1.0,
    attempt: int = 0,
    task: str = "task",
) -> Episode:
    """An episode that reads one page a window and keeps what its summaries say."""
    opening = (Message("system", "You read."), Message("user", f"Answer about {task}."))
    segments: list[Segment] = []
    compactions: list[Compaction] = []
    end = renderer.closing_ids
    prompt, read = renderer.opening(opening), ""
    for index, page in enumerate(pages):
        last = index == len(pages) - 1
        read += page
        messages = (Message("user", page),) if last else (Message("user", page), Message("user", "Summarize."))
        said = renderer.content_ids(answer if last else summaries[index]) + end
        turn = Turn(
            renderer.appended(messages) + renderer.generation_ids,
            said,
            tuple(-0.01 * (place % 300) for place in range(len(said))),
            TurnKind.ACT if last else TurnKind.SUMMARY,
            Finish.STOP,
            True,
            None if reward is None else reward - 0.5,
        )
        segments.append(Segment(prompt, (turn,)))
        if not last:
            carried = f"Summary: {summaries[index]}"
            prompt = renderer.opening((*opening, Message("user", carried)))
            needed = tuple(fact for fact in facts if held(fact, read))
            kept = tuple(held(fact, carried) for fact in needed)
            compactions.append(
                Compaction(index, 200, len(prompt), summaries[index], len(said), needed=needed, kept=kept)
            )
    status = Status.FINISHED if reward is not None else Status.ENGINE_ERROR
    return Episode(
        {"row": 1}, task, attempt, tuple(segments), tuple(compactions), reward, status, {"acts": 1.0}, acts=(answer,)
    )


def group(renderer: Renderer) -> list[Episode]:
    """Three attempts at one task of four windows: one keeps both facts, one loses one, one loses both."""
    pages = [f"Rain fell. {FACTS[0]}.", f"Snow fell. {FACTS[1]}.", "Hail fell.", "What are they?"]
    both, one = f"{FACTS[0]}; {FACTS[1]}", FACTS[1].upper()
    return [
        told(renderer, pages, [FACTS[0], both, both], both, reward=1.0, attempt=0),
        told(renderer, pages, [FACTS[0], one, one], one, reward=0.5, attempt=1),
        told(renderer, pages, ["nothing", FACTS[1], "nothing"], "nothing", reward=0.0, attempt=2),
    ]


def hostile(renderer: Renderer) -> Episode:
    """An episode that says what no page should obey, wherever an episode can say something."""
    made = told(renderer, [HOSTILE + " one", "two"], [HOSTILE], HOSTILE, facts=(HOSTILE,), task=HOSTILE)
    return replace(
        made,
        task={HOSTILE: [LONE, float("nan"), {"__proto__": 1}]},
        task_id=f"{HOSTILE} {LONE}",
        status=Status.ENVIRONMENT_ERROR,
        error=HOSTILE,
        reward=float("nan"),
        metrics={HOSTILE: float("inf"), "__proto__": 1.0},
        compactions=tuple(replace(c, needed=(HOSTILE, LONE), kept=(False, True)) for c in made.compactions),
    )


def many(count: int, seed: int = 0) -> list[Episode]:
    """Short episodes of tiny-policy tokens, in groups of four."""
    return [long(2, 60, seed=seed + index, task=f"task-{index // 4:04}", attempt=index % 4) for index in range(count)]


def long(windows: int, window: int, seed: int = 0, task: str = "long", attempt: int = 0) -> Episode:
    """An episode of tiny-policy tokens in full windows; every tenth brings a needed fact, and some are lost."""
    rng = random.Random(seed)

    def ids(size: int) -> tuple[int, ...]:
        return tuple(rng.randrange(10, 250) for _ in range(size))

    opening = ids(12)
    segments: list[Segment] = []
    compactions: list[Compaction] = []
    needed: list[str] = []
    gone: set[str] = set()
    for index in range(windows):
        prompt = opening if index == 0 else opening + ids(window // 10)
        turns: list[Turn] = []
        room = window - len(prompt)
        while room > 0:
            read = ids(min(room, 80))
            said = ids(min(room - len(read), 20))
            room -= len(read) + len(said)
            last = room <= 0 and index < windows - 1
            lives = tuple(-rng.random() for _ in said)
            turns.append(
                Turn(read, said, lives, TurnKind.SUMMARY if last else TurnKind.ACT, advantage=rng.random() - 0.5)
            )
        segments.append(Segment(prompt, tuple(turns)))
        if index < windows - 1:
            if index % 10 == 0:
                needed.append(f"fact {index}")
            gone.update(fact for fact in needed if rng.random() < 0.01)
            kept = tuple(fact not in gone for fact in needed)
            told_facts = "; ".join(fact for fact in needed if fact not in gone)
            compactions.append(
                Compaction(index, window, window // 10 + 12, told_facts, 20, needed=tuple(needed), kept=kept)
            )
    return Episode({"row": seed}, task, attempt, tuple(segments), tuple(compactions), rng.random(), Status.FINISHED)


def written(path: Path, episodes: Sequence[Episode], **about: str) -> Path:
    """A file of episodes."""
    with EpisodeWriter(path, about) as writer:
        for episode in episodes:
            writer.append(episode)
    return path
