"""Laws L1 and L2: imports never go upward, nor in a circle, and each door opens in one place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {
    "summarization": {"summarization"},
    "rollouts": {"summarization", "rollouts"},
    "eval": {"summarization", "rollouts", "eval"},
    "recipe": {"summarization", "rollouts", "eval", "recipe"},
}
NAMED = re.compile(rf"({'|'.join(MAY_IMPORT)})(\.\w+)+:\w+")


def modules(root: Path) -> dict[str, ast.Module]:
    """The syntax trees of all modules of the four packages, by dotted name. Relative imports are made absolute."""
    trees: dict[str, ast.Module] = {}
    for package in MAY_IMPORT:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            tree = ast.parse(path.read_text())
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.level:
                    node.module = ".".join([*parts[: len(parts) - node.level], *([node.module] if node.module else [])])
            trees[".".join(parts).removesuffix(".__init__")] = tree
    return trees


def imported(tree: ast.AST, everywhere: bool) -> Iterator[str]:
    """Names that a module imports; unless ``everywhere``, only those that run when it is loaded.

    ``everywhere`` includes imports by name: ``import_module("x")``, and strings such as ``"recipe.train:main"``, which
    is how the doors name what stands behind them.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif everywhere:
            yield from _by_name(node)
            yield from imported(node, everywhere)
        elif _type_checking(node):
            yield from (name for other in node.orelse for name in imported(ast.Module([other], []), everywhere))
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from imported(node, everywhere)


def _by_name(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)) if NAMED.fullmatch(text):
            yield text.replace(":", ".")
        case ast.Call(func=function, args=[ast.Constant(value=str(text)), *_]):
            if ast.unparse(function).rpartition(".")[2] in ("import_module", "__import__"):
                yield text


def _type_checking(node: ast.AST) -> TypeGuard[ast.If]:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def upward(trees: dict[str, ast.Module]) -> list[str]:
    """Imports that break L1."""
    return [
        f"{name} imports {target}"
        for name, tree in trees.items()
        for target in imported(tree, everywhere=True)
        if target.partition(".")[0] in MAY_IMPORT and target.partition(".")[0] not in MAY_IMPORT[name.partition(".")[0]]
    ]


def outsiders(trees: dict[str, ast.Module], package: str, allowed: tuple[str, ...]) -> list[str]:
    """Modules that import ``package`` and are neither in ``allowed`` nor inside a package that is."""
    return [
        name
        for name, tree in trees.items()
        if any(target.partition(".")[0] == package for target in imported(tree, everywhere=True))
        and not any(f"{name}.".startswith(f"{door}.") for door in allowed)
    ]


def circle(trees: dict[str, ast.Module]) -> list[str]:
    """A circle of imports, or nothing."""

    def module_of(target: str) -> str | None:
        return target if target in trees else target.rpartition(".")[0] if target.rpartition(".")[0] in trees else None

    edges = {
        name: {
            module for target in imported(tree, everywhere=False) if (module := module_of(target)) not in (None, name)
        }
        for name, tree in trees.items()
    }
    done: set[str] = set()

    def walk(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for target in sorted(edges[name]):
            if found := walk(str(target), [*path, name]):
                return found
        done.add(name)
        return []

    return next((found for name in sorted(edges) if (found := walk(name, []))), [])


def undocumented(trees: dict[str, ast.Module]) -> list[str]:
    """Modules, and public classes and functions on their top level, without a docstring."""
    found = [name for name, tree in trees.items() if not ast.get_docstring(tree)]
    for name, tree in trees.items():
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name.startswith("_"):
                continue
            if not ast.get_docstring(node):
                found.append(f"{name}.{node.name}")
    return found


def test_imports_never_go_upward() -> None:
    assert upward(modules(ROOT)) == []


def test_imports_make_no_circle() -> None:
    assert circle(modules(ROOT)) == []


@pytest.mark.parametrize(
    ("package", "doors"),
    [
        ("trl", ("recipe",)),
        ("wandb", ("eval.tracking", "recipe.tracking")),
        ("torch", ("rollouts.engines", "rollouts.policies", "eval", "recipe")),
        (
            "transformers",
            (
                "rollouts.contents",
                "rollouts.engines",
                "rollouts.policies",
                "rollouts.rendering",
                "rollouts.tools",
                "eval",
                "recipe",
            ),
        ),
    ],
)
def test_doors(package: str, doors: tuple[str, ...]) -> None:
    assert outsiders(modules(ROOT), package, doors) == []


def test_everything_public_says_what_it_is() -> None:
    assert undocumented(modules(ROOT)) == []


def test_the_checks_read_the_real_packages() -> None:
    """An empty folder would break no law."""
    trees = modules(ROOT)
    assert {name.partition(".")[0] for name in trees} == set(MAY_IMPORT)
    assert outsiders(trees, "trl", ())
    assert outsiders(trees, "torch", ("recipe",))
    assert "summarization.strategies.SelfSummary" in set(imported(trees["summarization.strategies"], everywhere=True))


def written(root: Path, sources: dict[str, str]) -> dict[str, ast.Module]:
    """The modules of a small house, from their sources by dotted name."""
    for name, source in sources.items():
        path = root.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return modules(root)


@pytest.mark.parametrize(
    "source",
    [
        "import recipe.train",
        "from recipe.train import main",
        "from recipe import train",
        "def f():\n    from recipe.train import main",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from recipe.train import main",
        "import importlib\nmain = importlib.import_module('recipe.train')",
        "BUILTIN = {'x': 'recipe.train:main'}",
        "from ..recipe import train",
    ],
)
@pytest.mark.parametrize("package", ["summarization", "rollouts", "eval"])
def test_an_import_upward_is_seen_in_every_dress(package: str, source: str, tmp_path: Path) -> None:
    (found,) = upward(written(tmp_path, {f"{package}.a": source}))
    assert found.startswith(f"{package}.a imports recipe.train")


def test_each_layer_sees_those_below_and_no_others(tmp_path: Path) -> None:
    every = "".join(f"import {package}.b\n" for package in MAY_IMPORT)
    trees = written(tmp_path, {f"{package}.a": every for package in MAY_IMPORT})
    assert upward(trees) == [
        "summarization.a imports rollouts.b",
        "summarization.a imports eval.b",
        "summarization.a imports recipe.b",
        "rollouts.a imports eval.b",
        "rollouts.a imports recipe.b",
        "eval.a imports recipe.b",
    ]


@pytest.mark.parametrize(
    "back", ["import eval.b", "from eval import b", "from . import b", "try:\n    from .b import x\nfinally: ..."]
)
def test_a_circle_is_seen(back: str, tmp_path: Path) -> None:
    trees = written(tmp_path, {"eval.a": "import eval.b", "eval.b": "from eval.c import x", "eval.c": back})
    assert circle(trees) == ["eval.b", "eval.c", "eval.b"]


def test_a_circle_through_a_package_is_seen(tmp_path: Path) -> None:
    trees = written(tmp_path, {"eval.__init__": "from .b import x", "eval.b": "from eval import y"})
    assert circle(trees) == ["eval", "eval.b", "eval"]


@pytest.mark.parametrize(
    "back",
    [
        "def f():\n    import eval.b",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from eval.b import x",
        "BUILTIN = {'x': 'eval.b:x'}",
        "import eval.d",
    ],
)
def test_what_does_not_run_when_a_module_is_loaded_closes_no_circle(back: str, tmp_path: Path) -> None:
    trees = written(tmp_path, {"eval.b": "import eval.c, eval.d", "eval.c": back, "eval.d": ""})
    assert circle(trees) == []


def test_a_wrong_door_is_seen(tmp_path: Path) -> None:
    sources = {
        "recipe.tracking": "import wandb",
        "recipe.tracking_more": "import wandb",
        "recipe.tracks": "import wandb_like",
        "rollouts.engines.__init__": "import torch",
        "rollouts.engines.own": "from torch.nn import functional",
        "rollouts.engine": "def f():\n    import torch.nn",
        "eval.a": "from trl import GRPOTrainer",
    }
    trees = written(tmp_path, sources)
    assert set(trees) == {name.removesuffix(".__init__") for name in sources}
    assert outsiders(trees, "wandb", ("recipe.tracking",)) == ["recipe.tracking_more"]
    assert outsiders(trees, "torch", ("rollouts.engines",)) == ["rollouts.engine"]
    assert outsiders(trees, "trl", ("recipe",)) == ["eval.a"]


def test_what_has_no_docstring_is_seen(tmp_path: Path) -> None:
    bare = "def f(): ...\nasync def g(): ...\nclass C: ...\ndef _own(): ...\nclass _Own: ...\n"
    told = '"""Told."""\ndef f():\n    """Told."""\nclass C:\n    """Told."""\n    def of_a_protocol(self): ...\n'
    trees = written(tmp_path, {"eval.a": bare, "eval.b": told})
    assert undocumented(trees) == ["eval.a", "eval.a.f", "eval.a.g", "eval.a.C"]
