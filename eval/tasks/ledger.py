"""``ledger``: deposits, withdrawals and transfers stream by; what is the balance of some accounts at the end?

A handful of named accounts matter; all others are there to be ignored. Every balance must be updated again and again,
so a reader who keeps the lines instead of the state runs out of room.

Its twins (:mod:`eval.tasks.twins`): in ``absent`` no entry names an account that is asked for; in ``contradicted``
those open with too much, which a later entry takes back.

- ``official``: the share of right balances that stand in the answer as a substring, as naive scorers look for them:
  they find 512 in 15120, and in a copy of the text.
- ``strict``: the share of accounts whose last number behind their last mention, before any other account is named, is
  the right balance. With one account asked for, a number without a name will do.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

from eval.tasks.base import Ask, Task
from eval.tasks.match import UNKNOWN, plain_numbers, string_match_all
from eval.tasks.twins import TWINS, abstention, allowed
from rollouts.environments.lexicon import PEOPLE
from summarization.resolve import UserError

OTHERS = 24
SHARE = 0.4
"""How many of the entries are about accounts that matter, at least."""
LARGEST_OPENING = 999
LARGEST_AMOUNT = 99

_OPENING = "The account of {name} opens with {amount} coins."
_DEPOSITS = ("{name} deposits {amount} coins.", "{amount} coins are paid into the account of {name}.")
_WITHDRAWALS = ("{name} withdraws {amount} coins.", "{amount} coins are taken out of the account of {name}.")
_CORRECTION = "This is a correction: the account of {name} opened with {amount} coins, not with {wrong}."
_TRANSFERS = ("{name} sends {amount} coins to {receiver}.", "{receiver} receives {amount} coins from {name}.")


@dataclass(frozen=True)
class Entry:
    """One line, and by how much it changes which balances."""

    text: str
    changes: Mapping[str, int]


class Ledger(Task):
    """See the module's docstring. Options: ``accounts``, how many matter; ``asked``, how many the question names."""

    name = "ledger"
    about = "balances of a few accounts after thousands of deposits, withdrawals and transfers"
    defaults: ClassVar[Mapping[str, Any]] = {"accounts": 4, "asked": 2, **TWINS}
    system = "You read the entries of a ledger page by page and answer one question about balances at the end."

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask)
        accounts, asked = self.options["accounts"], self.options["asked"]
        most = len(PEOPLE) - OTHERS
        if not 1 <= accounts <= most:
            raise UserError(f"task 'ledger': accounts is {accounts}, must be between 1 and {most}")
        if not 1 <= asked <= accounts:
            raise UserError(f"task 'ledger': asked is {asked}, must be between 1 and accounts, which is {accounts}")
        rng = self.draw("accounts")
        names = [name.capitalize() for name in rng.sample(PEOPLE, accounts + OTHERS)]
        self._matter, self._others = names[:accounts], names[accounts:]
        self._asked = rng.sample(self._matter, asked)
        self._balances: dict[str, int] = {}
        # Without these names nobody could know what to keep when the question comes only at the end.
        self.wait = (  # pyright: ignore[reportAttributeAccessIssue]
            f"Keep the balances of the accounts of {', '.join(sorted(self._matter))}: the question after the last page "
            "is about some of them."
        )

    @property
    def question(self) -> str:
        return (
            f"What is the final balance of each of these accounts: {', '.join(self._asked)}? "
            "Entries count in the order of the text. Answer with one line for each account, 'name: balance'."
            f"{allowed(self.options, f'answer {UNKNOWN} in place of the balance')}"
        )

    def pieces(self) -> Iterator[str]:
        contradicted = self.options["contradicted"] and not self.options["absent"]
        corrections = self._corrections() if contradicted else []
        left = self.ask.tokens - sum(self.ask.count(entry.text) for _, entry in corrections)
        room = left
        for number, entry in enumerate(self._told()):
            # Never before all accounts were opened, and the last ones at the end.
            while corrections and number >= len(self._matter) and room - left >= corrections[0][0] * room:
                yield from self._read(corrections.pop(0)[1])
            size = self.ask.count(entry.text)
            # Stop where one more would lead farther from the length asked for.
            if size > 2 * left:
                break
            left -= size
            yield from self._read(entry)
        expected = set(self._matter) - (set(self._asked) if self.options["absent"] else set())
        if not expected <= self._balances.keys():
            raise UserError(
                f"length is {self.ask.tokens} tokens, too few to open {len(self._matter)} accounts: "
                "ask for a longer sample"
            )
        for _, entry in corrections:
            yield from self._read(entry)

    def _read(self, entry: Entry) -> Iterator[str]:
        yield entry.text
        # Only now: whoever makes pages takes a piece before the page without it goes out.
        for name, change in entry.changes.items():
            self._balances[name] = self._balances.get(name, 0) + change

    def answers(self) -> Sequence[str]:
        if self.options["absent"]:
            return (UNKNOWN,)
        return tuple(f"{name}: {self._balances.get(name, 0)}" for name in self._asked)

    def scores(self, answer: str) -> Mapping[str, float]:
        if self.options["absent"]:
            return abstention(answer, re.compile(r"\d"))
        right = {name: self._balances.get(name, 0) for name in self._asked}
        return {
            "official": string_match_all(answer, [str(balance) for balance in right.values()]),
            "strict": strict(answer, right, (*self._matter, *self._others)),
        }

    def needed(self) -> Sequence[str]:
        """The present balances of the accounts that will be asked for."""
        return tuple(str(self._balances[name]) for name in self._asked if name in self._balances)

    def _told(self) -> Iterator[Entry]:
        """Entries as they stand in the text, without end."""
        opened: set[str] = set()
        for entry in self._entries():
            asked = entry.changes.keys() & set(self._asked)
            if asked and self.options["absent"]:
                continue
            if self.options["contradicted"] and asked - opened and len(entry.changes) == 1:
                ((name, amount),) = entry.changes.items()
                entry = Entry(
                    _OPENING.format(name=name, amount=self._wrong(name, amount)), {name: self._wrong(name, amount)}
                )
            opened |= entry.changes.keys()
            yield entry

    def _wrong(self, name: str, amount: int) -> int:
        """What the text first gives as an opening: more, so that nobody spends more than there seems to be."""
        return amount + self.draw("wrong", name).randint(1, LARGEST_AMOUNT)

    def _corrections(self) -> list[tuple[float, Entry]]:
        """Corrections of the openings of all accounts asked for, with their depths, in ascending order."""
        found = []
        for entry in islice(self._entries(), len(self._matter)):
            ((name, amount),) = entry.changes.items()
            if name in self._asked:
                wrong = self._wrong(name, amount)
                text = _CORRECTION.format(name=name, amount=amount, wrong=wrong)
                found.append((self.draw("correction", name).random(), Entry(text, {name: amount - wrong})))
        return sorted(found, key=lambda each: each[0])

    def _entries(self) -> Iterator[Entry]:
        """Entries without end. All balances here are one entry ahead of those that were read."""
        rng = self.draw("entries")
        balances: dict[str, int] = {}
        for name in rng.sample(self._matter, len(self._matter)):
            yield _opened(rng, name, balances)
        while True:
            name = rng.choice(self._matter if rng.random() < SHARE else self._others)
            if name not in balances:
                yield _opened(rng, name, balances)
                continue
            yield _changed(rng, name, balances)


def strict(answer: str, right: Mapping[str, int], names: Collection[str]) -> float:
    """The share of ``right`` that the answer gives; see the module's docstring.

    Args:
        right: Balance of each account asked for.
        names: All accounts.
    """
    token = re.compile(rf"(?<!\w)(?:(?P<name>{'|'.join(names)})|(?P<number>-?\d+(?:\.\d+)?))(?!\w)", re.IGNORECASE)
    by_name = {name.lower(): name for name in names}
    about = next(iter(right)) if len(right) == 1 else None
    given: dict[str, str] = {}
    for found in token.finditer(plain_numbers(answer)):
        if found["name"]:
            about = by_name[found["name"].lower()]
        elif about:
            given[about] = found["number"]
    return sum(name in given and float(given[name]) == balance for name, balance in right.items()) / len(right)


def _opened(rng: random.Random, name: str, balances: dict[str, int]) -> Entry:
    balances[name] = rng.randint(LARGEST_AMOUNT, LARGEST_OPENING)
    return Entry(_OPENING.format(name=name, amount=balances[name]), {name: balances[name]})


def _changed(rng: random.Random, name: str, balances: dict[str, int]) -> Entry:
    """A deposit, a withdrawal or a transfer; nobody spends more than there is."""
    open_accounts = [other for other in balances if other != name]
    if balances[name] == 0:
        kind = "deposit"
    else:
        # Deposits are more frequent where there is little: else all would hover above nothing after a while.
        weights = {"deposit": 4 if balances[name] < LARGEST_OPENING // 2 else 1, "withdrawal": 1, "transfer": 1}
        if not open_accounts:
            del weights["transfer"]
        (kind,) = rng.choices(list(weights), list(weights.values()))
    amount = rng.randint(1, LARGEST_AMOUNT if kind == "deposit" else min(balances[name], LARGEST_AMOUNT))
    if kind == "deposit":
        changes, wordings, receiver = {name: amount}, _DEPOSITS, ""
    elif kind == "withdrawal":
        changes, wordings, receiver = {name: -amount}, _WITHDRAWALS, ""
    else:
        receiver = rng.choice(open_accounts)
        changes, wordings = {name: -amount, receiver: amount}, _TRANSFERS
    for changed, change in changes.items():
        balances[changed] += change
    return Entry(rng.choice(wordings).format(name=name, amount=amount, receiver=receiver), changes)
