"""What a Python file states: its definitions, defaults, constants and calls, each with the lines it stands on.

Left out on purpose: anything that a reader of the text could not decide for certain, such as values that are not plain
numbers or text, names bound twice, and what a decorator or an assignment at run time does.
"""

from __future__ import annotations

import ast
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from summarization.resolve import UserError

# pydoc_data is prose that serves as filler elsewhere; the others are tests, or packages of other people.
LEFT_OUT = frozenset(
    "test tests idle_test idlelib lib2to3 pydoc_data site-packages dist-packages __pycache__ node_modules".split()
)
LONGEST_VALUE = 40
# What anybody would guess without having read the text.
GUESSED = frozenset(("0", "1", "-1", "0.0", "1.0", "strict"))

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Definition:
    """A function, method or class, at ``line``; ``top`` where it stands at the top of its module."""

    name: str
    kind: str
    line: int
    top: bool


@dataclass(frozen=True)
class Value:
    """A plain value as written, on ``line``: of a module's constant, or of a parameter of ``owner``."""

    owner: str
    name: str
    value: str
    first_line: int
    line: int


@dataclass(frozen=True)
class Call:
    """A call of something named ``callee``. ``caller`` is empty where no single plain function can be named."""

    callee: str
    caller: str
    caller_line: int
    line: int


@dataclass(frozen=True)
class Symbols:
    """All that is asked about in one file; ``starts`` are the lines on which its statements begin."""

    starts: tuple[int, ...]
    definitions: tuple[Definition, ...]
    defaults: tuple[Value, ...]
    constants: tuple[Value, ...]
    calls: tuple[Call, ...]


@lru_cache(maxsize=8)
def python_files(folder: str) -> tuple[tuple[str, Path], ...]:
    """Relative path and place of every Python file under ``folder`` (empty: the standard library), without tests.

    Raises:
        UserError: There is no such folder, or it holds no Python file.
    """
    root = Path(folder or sysconfig.get_paths()["stdlib"])
    if not root.is_dir():
        raise UserError(f"task 'codebase': folder is '{folder}', which is no folder; name one that holds Python files")
    found = []
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root)
        if not any(part in LEFT_OUT or part.startswith(".") for part in inside.parts):
            found.append((inside.as_posix(), path))
    if not found:
        raise UserError(f"task 'codebase': folder is '{root}', which holds no Python file outside tests; name another")
    return tuple(found)


def source(path: Path) -> str | None:
    """The text of a file, None where it is not UTF-8 or cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


@lru_cache(maxsize=8192)
def symbols(path: Path) -> Symbols | None:
    """What the file states; None for one that this interpreter cannot parse, which cannot be asked about."""
    text = source(path)
    if text is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in somebody's file is not the user's business
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    reader = _Reader(text.split("\n"))
    reader.module(tree)
    starts = [min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))]) for node in tree.body]
    return Symbols(
        tuple(starts),
        tuple(reader.definitions),
        tuple(value for value in reader.defaults if reader.owners[value.owner] == 1),
        tuple(value for value in reader.constants if reader.bound[value.name] == 1),
        tuple(reader.calls),
    )


class _Reader:
    """Walks one tree and notes what it finds."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.definitions: list[Definition] = []
        self.defaults: list[Value] = []
        self.constants: list[Value] = []
        self.calls: list[Call] = []
        self.bound: Counter[str] = Counter()
        self.owners: Counter[str] = Counter()

    def module(self, tree: ast.Module) -> None:
        for node in tree.body:
            target, value = _assignment(node)
            if target and value is not None and target.strip("_").isupper():
                self._note(self.constants, "", target, node, value)
        self._bindings(tree)
        self._visit(tree, (), ())

    def _visit(self, node: ast.AST, path: tuple[str, ...], functions: tuple[Function, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            inner_path, inner_functions = path, functions
            if isinstance(child, Function | ast.ClassDef):
                inner_path = (*path, child.name)
                kind = "class" if isinstance(child, ast.ClassDef) else "function"
                self.definitions.append(Definition(child.name, kind, child.lineno, not path))
                if isinstance(child, Function):
                    inner_functions = (*functions, child)
                    self.owners[".".join(inner_path)] += 1
                    if not functions:
                        self._parameters(child, ".".join(inner_path))
            elif isinstance(child, ast.Call):
                self._call(child, functions)
            elif isinstance(child, ast.Global):
                self.bound.update(child.names)
            self._visit(child, inner_path, inner_functions)

    def _parameters(self, node: Function, owner: str) -> None:
        positional = [*node.args.posonlyargs, *node.args.args]
        late = positional[len(positional) - len(node.args.defaults) :]
        pairs = [*zip(late, node.args.defaults, strict=True)]
        pairs += [(a, d) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if d is not None]
        for parameter, default in pairs:
            self._note(self.defaults, owner, parameter.arg, node, default)

    def _call(self, node: ast.Call, functions: tuple[Function, ...]) -> None:
        called = node.func
        name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
        if not name:
            return
        # In a function within a function two names would be right; names like __init__ are everywhere.
        plain = len(functions) == 1 and not functions[0].name.startswith("__")
        caller = functions[0] if plain else None
        self.calls.append(
            Call(name, caller.name if caller else "", caller.lineno if caller else 0, node.func.end_lineno or 0)
        )

    def _note(self, into: list[Value], owner: str, name: str, node: ast.stmt, value: ast.expr) -> None:
        written = self._plain(value)
        if written is not None and written not in GUESSED:
            into.append(Value(owner, name, written, node.lineno, value.end_lineno or value.lineno))

    def _plain(self, node: ast.expr) -> str | None:
        """The value as its line has it (text without its quotes), where that is what it means."""
        if node.end_lineno != node.lineno or not self.lines[node.lineno - 1].isascii():
            return None
        text = self.lines[node.lineno - 1][node.col_offset : node.end_col_offset]
        sign = "-" if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else ""
        inner = node.operand if isinstance(node, ast.UnaryOp) else node
        held = inner.value if isinstance(inner, ast.Constant) else None
        if isinstance(held, str) and text[1:-1] == held and held == held.strip() and 2 <= len(held) <= LONGEST_VALUE:
            # Punctuation alone cannot be told from the punctuation of an answer.
            return held if held[0].isalnum() and held[-1].isalnum() else None
        if isinstance(held, int | float) and not isinstance(held, bool) and text == f"{sign}{held!r}":
            return text
        return None

    def _bindings(self, node: ast.AST) -> None:
        """Count how often each name is bound in the module itself."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Load):
                self.bound[child.id] += 1
            elif isinstance(child, ast.alias):
                self.bound[(child.asname or child.name).split(".")[0]] += 1
            elif isinstance(child, ast.ExceptHandler) and child.name:
                self.bound[child.name] += 1
            if isinstance(child, Function | ast.ClassDef):
                self.bound[child.name] += 1
            else:
                self._bindings(child)


def _assignment(node: ast.stmt) -> tuple[str, ast.expr | None]:
    """Name and value of ``NAME = value``."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id, node.value
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id, node.value
    return "", None


def chunks(lines: list[str], first: int, words: int, characters: int) -> Iterator[tuple[int, int, str]]:
    """Whole lines from line ``first`` on, as (first line, last line, text) of limited size.

    A line longer than ``characters`` is cut into several chunks; all but the last then end on the line before.
    """
    start, size, length, held = first, 0, 0, list[str]()
    for number in range(first, len(lines) + 1):
        line = lines[number - 1]
        amount = len(line.split())
        if held and (size + amount > words or length + len(line) > characters):
            yield start, number - 1, "\n".join(held)
            start, size, length, held = number, 0, 0, []
        while len(line) > characters:
            yield number, number - 1, line[:characters]
            line = line[characters:]
        held.append(line)
        size, length = size + amount, length + len(line) + 1
    if any(line.strip() for line in held):
        yield start, len(lines), "\n".join(held)
