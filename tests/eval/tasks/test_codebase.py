"""The ``codebase`` task: questions about real source, answered by syntax trees."""

import ast
import re
from pathlib import Path

import pytest

from eval.tasks import codebase
from eval.tasks.base import Ask
from eval.tasks.codebase import Codebase
from eval.tasks.codebase_answers import named_functions, named_paths, only_value
from eval.tasks.codebase_index import python_files, symbols
from summarization.metrics import held
from summarization.resolve import UserError
from tests.eval.tasks.samples import quarters, words

COUNTERS = {"words": words, "letters": quarters}


def made(tokens=8_000, seed=0, count="words", **options):
    return Codebase(Ask(seed, tokens, COUNTERS[count], options))


def tree(folder: Path, **files: str) -> str:
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(folder)


@pytest.mark.parametrize("count", COUNTERS)
@pytest.mark.parametrize("tokens", [1_000, 8_000, 100_000])
@pytest.mark.parametrize("kind", [*codebase.KINDS, "any"])
def test_length_and_answer(tokens, count, kind):
    for seed in range(2):
        task = made(tokens, seed, count, kind=kind)
        assert task.needed() == ()
        parts, known = [], []
        for part in task.pieces():
            parts.append(part)
            known.append(bool(task.needed()))
        assert sum(COUNTERS[count](part) for part in parts) == pytest.approx(tokens, rel=0.02)
        assert all(len(part.split()) < 200 for part in parts)
        # The answer is needed from the piece on that states it, and that piece has it.
        where = known.index(True)
        assert known == [False] * where + [True] * (len(parts) - where)
        assert task.answers() == task.needed()
        assert held(task.answers()[0], parts[where] if task.kind != "caller_of" else "\n".join(parts[: where + 1]))
        assert task.scores(task.answers()[0]) == {"official": 1.0, "strict": 1.0}
        assert task.scores("\n".join(parts))["strict"] == 0.0
        assert task.scores("")["official"] == task.scores("I do not know.")["strict"] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTERS)
def test_a_million_tokens(count):
    task = made(1_000_000, 3, count)
    assert sum(COUNTERS[count](part) for part in task.pieces()) == pytest.approx(1_000_000, rel=0.02)


def test_a_sample_follows_from_its_seed():
    texts = [(task.question, "\n".join(task.pieces())) for task in (made(seed=1), made(seed=1), made(seed=2))]
    assert texts[0] == texts[1] != texts[2]


def test_no_file_is_read_twice_and_no_test_is_read():
    names = [excerpt.name for excerpt in made(100_000).excerpts]
    assert len(set(names)) == len(names) > 8
    assert not [
        name for name, _ in python_files("") if re.search(r"(^|/)(tests?|idlelib|lib2to3|site-packages)/", name)
    ]


def test_a_tree_that_is_too_small_is_refused(tmp_path):
    folder = tree(tmp_path, one="def first():\n    return 1\n", two="def second():\n    return 2\n")
    with pytest.raises(UserError, match=r"length is 1000 tokens, but the Python files of .* have only \d+"):
        made(1_000, folder=folder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "constants"}, "did you mean 'constant'"),
        ({"folder": "/nowhere"}, "folder is '/nowhere', which is no folder"),
        ({"folders": ""}, "no option 'folders'"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        made(**options)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(UserError, match="holds no Python file"):
        made(folder=str(tmp_path))


def test_a_file_that_cannot_be_parsed_is_passed_over(tmp_path):
    folder = tree(tmp_path, bad="print 'old'\n", one="def first():\n    pass\n", two="def second():\n    pass\n")
    task = made(20, folder=folder, kind="defined_in")
    assert task.answers()[0] in ("one.py", "two.py")
    assert "old" not in "".join(task.pieces())


def test_what_is_asked_is_unique_in_what_is_read(tmp_path):
    body = "def shared():\n    pass\n\n\ndef only_{0}():\n    helper_{0}()\n    common()\n"
    folder = tree(tmp_path, one=body.format("one"), two=body.format("two"))
    size = sum(len(f"# x.py, part 1, from line 1 {body}".split()) for _ in range(2))
    names = {
        re.findall(r"`(\w+)`", made(size, seed, folder=folder, kind="defined_in").question)[0] for seed in range(20)
    }
    assert names == {"only_one", "only_two"}
    called = {
        re.findall(r"`(\w+)`", made(size, seed, folder=folder, kind="caller_of").question)[0] for seed in range(20)
    }
    assert called == {"helper_one", "helper_two"}


def test_index(tmp_path):
    source = """LIMIT = 42
TWICE = 21
TWICE = 22
NAME = "plain text"
ODD = 0x10
CHANGED = 5


class Box:
    def open(self, width=-3, *, label="a label", deep=None):
        peek()

        def inner(x=9):
            poke()


def change():
    global CHANGED
    CHANGED = 6


def double(a=11): ...
def double(a=12): ...
def usual(a=0, errors="strict"): ...
"""
    facts = symbols(Path(tree(tmp_path, module=source)) / "module.py")
    assert facts is not None
    assert {(value.name, value.value) for value in facts.constants} == {("LIMIT", "42"), ("NAME", "plain text")}
    defaults = {(value.owner, value.name, value.value) for value in facts.defaults}
    assert defaults == {("Box.open", "width", "-3"), ("Box.open", "label", "a label")}
    assert {(call.callee, call.caller) for call in facts.calls} == {("peek", "open"), ("poke", "")}
    assert [definition.name for definition in facts.definitions if definition.top] == [
        "Box",
        "change",
        "double",
        "double",
        "usual",
    ]


@pytest.mark.parametrize("seed", range(12))
def test_answers_agree_with_a_second_reading(seed):
    """Read the text itself again, without the index."""
    task = made(20_000, seed)
    texts: dict[str, str] = {}
    for part in task.pieces():
        heading, _, text = part.partition("\n")
        name = heading[2 : heading.index(".py,") + 3]
        texts[name] = texts.get(name, "") + text + "\n"
    asked, answer = re.findall(r"`([^`]+)`", task.question), task.answers()[0]
    if task.kind == "defined_in":
        pattern = rf"(?m)^\s*(?:async def|def|class) {asked[0]}\b"
        assert [name for name, text in texts.items() if re.search(pattern, text)] == [answer]
    elif task.kind == "constant":
        assert re.search(rf"(?m)^{asked[1]}\b[^=]*= *['\"]?{re.escape(answer)}", texts[asked[0]])
    elif task.kind == "default_of":
        assert re.search(rf"\b{asked[1]}\b[^=,]*= *['\"]?{re.escape(answer)}", texts[asked[0]])
    else:
        whole = dict(python_files(""))
        callers = set()
        for name in texts:
            for node in ast.walk(ast.parse(whole[name].read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef):
                    callers |= {node.name for call in ast.walk(node) if _calls(call, asked[0])}
        assert answer in callers


def _calls(node, name):
    return isinstance(node, ast.Call) and name in (getattr(node.func, "id", ""), getattr(node.func, "attr", ""))


def test_strict_scores():
    assert named_paths("It is in `email/message.py`.") == {"email/message.py"}
    assert named_paths("message.py or ast.py") == {"message.py", "ast.py"}
    functions = frozenset({"walk", "call", "get_all", "the"})
    assert named_functions("walk", functions, "") == {"walk"}
    assert named_functions("The call stands in `walk`.", functions, "") == {"walk"}
    assert named_functions("Message.walk() and get_all", functions, "") == {"walk", "get_all"}
    assert named_functions("walk or call", functions, "") == {"walk", "call"}
    assert only_value("The value is 42.", "42", "")
    assert not only_value("42 or 43", "42", "")
    assert not only_value("142", "42", "")
    assert only_value("-3", "-3", "")
    assert not only_value("3", "-3", "")
    assert only_value("It is 'utf-8'.", "utf-8", "")
    assert not only_value("'utf-8' or 'ascii'", "utf-8", "")
    assert not only_value("utf-8-sig", "utf-8-sig2", "")
    assert not only_value("word " * 60 + "utf-8", "utf-8", "")
