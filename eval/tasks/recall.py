"""``recall`` and ``chain``: the environment that policies are trained on, as tasks of any length in tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from eval.tasks.base import Ask, Task
from eval.tasks.match import UNKNOWN, any_of, string_match_all
from eval.tasks.twins import ABSENT, abstention, allowed
from rollouts.environments.lexicon import KINDS
from rollouts.environments.recall import TASK_KINDS, Plan, Recall
from summarization.resolve import UserError, closest

# Pages whose tokens are counted, to learn how many tokens a page has.
SAMPLED_PAGES = 64


class RecallTask(Task):
    """Facts on pages, one of which is asked for; held-out tasks of the environment ``recall``.

    Its twin ``absent`` (:mod:`eval.tasks.twins`) has no fact about what is asked; of ``count``, whose answer would then
    be 0, there is none. In the style ``tiny`` the answer "unknown" is not among a tiny policy's words.
    """

    name = "recall"
    about = "find one fact, or the latest value of one that changes, among pages of facts"
    piece_is_page = True
    defaults: ClassVar[Mapping[str, object]] = {
        "kind": "find",
        "page_words": 32,
        "facts_per_page": 4,
        "style": "tiny",
        "filler": "sentences",
        "items": 2,
        "changes": 2,
        **ABSENT,
    }

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask)
        if self.options["kind"] not in TASK_KINDS:
            raise UserError(
                f"task '{self.name}': kind is '{self.options['kind']}'; "
                f"{closest(self.options['kind'], list(TASK_KINDS))}"
            )
        if self.options["absent"] and self.options["kind"] == "count":
            raise UserError(
                f"task '{self.name}': absent is True, but of kind 'count' the answer would be 0: leave it out"
            )
        own = ("kind", *ABSENT)
        self.recall = self.make(**{name: value for name, value in self.options.items() if name not in own})
        pages = self._pages()
        row = {
            "seed": self.draw("recall").getrandbits(48),
            "split": "test",
            "kind": self.options["kind"],
            "words": pages * self.options["page_words"],
        }
        opening = self.recall.reset(row)
        self._kind = self.recall.plan.facts[0].kind if self.recall.plan.facts else ""
        if self.options["absent"]:
            # After the reset: what else is on the pages never has the keys that were asked for.
            self.recall.plan = replace(self.recall.plan, facts=(), pages=(), answers=(UNKNOWN,))
        self.system = opening.messages[0].content  # pyright: ignore[reportAttributeAccessIssue]
        if self.options["style"] == "tiny":
            self.wait, self.ending = "read on", "answer"  # pyright: ignore[reportAttributeAccessIssue]

    def make(self, **settings: object) -> Recall:
        """The environment that the pages come from."""
        return Recall(**settings)  # pyright: ignore[reportArgumentType]

    @property
    def question(self) -> str:
        return self.recall.plan.question + allowed(self.options)

    def pieces(self) -> Iterator[str]:
        while not (observation := self.recall.advance(None)).needs_act:
            yield observation.messages[0].content

    def answers(self) -> Sequence[str]:
        return self.recall.plan.answers

    def needed(self) -> Sequence[str]:
        return self.recall.needed()

    def scores(self, answer: str) -> Mapping[str, float]:
        """``official``: the share of answers that stand in it somewhere; ``strict``: 0 if it names another as well."""
        if self.options["absent"]:
            return abstention(answer, any_of(KINDS[self._kind].values))
        self.recall.advance(answer)
        return {"official": string_match_all(answer, self.answers()), "strict": float(self.recall.reward() or 0.0)}

    def _pages(self) -> int:
        """How many pages have the tokens asked for."""
        trial = {"seed": self.ask.seed, "split": "test", "kind": "find", "words": self.options["page_words"]}
        self.recall.reset(trial)
        sizes = [self.ask.count(self.recall.page(index)) for index in range(1, SAMPLED_PAGES + 1)]
        return max(1, round(self.ask.tokens * SAMPLED_PAGES / sum(sizes)))


class _FirstPage(Recall):
    """``recall`` whose facts all stand on the first page."""

    def _draw(self, split: str, kind: str, words: int) -> Plan:
        plan = super()._draw(split, kind, words)
        return Plan(plan.facts, (0,) * len(plan.facts), plan.page_count, plan.question, plan.answers)


class ChainTask(RecallTask):
    """One fact on the first page, which every later compaction must carry: the unit test of a summary."""

    name = "chain"
    about = "a fact on the first page that must survive every compaction after it"

    def make(self, **settings: object) -> Recall:
        """As its parent, with the facts on the first page."""
        return _FirstPage(**settings)  # pyright: ignore[reportArgumentType]
