"""Laws L1 and L2: imports never go upward, nor in a circle, and each door opens in one place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {
    "summarization": {"summarization"},
    "rollouts": {"summarization", "rollouts"},
    "eval": {"summarization", "rollouts", "eval"},
    "recipe": {"summarization", "rollouts", "eval", "recipe"},
}


def modules(root: Path) -> dict[str, ast.Module]:
    """The syntax trees of all modules of the four packages, by dotted name."""
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): ast.parse(path.read_text())
        for package in MAY_IMPORT
        for path in sorted((root / package).rglob("*.py"))
    }


def imported(tree: ast.AST, everywhere: bool) -> Iterator[str]:
    """Names that a module imports; unless ``everywhere``, only those that run when it is loaded."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif everywhere or (not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _type_checking(node)):
            yield from imported(node, everywhere)


def _type_checking(node: ast.AST) -> bool:
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
    """Modules outside of ``allowed`` that import ``package``."""
    return [
        name
        for name, tree in trees.items()
        if any(target.partition(".")[0] == package for target in imported(tree, everywhere=True))
        and not name.startswith(allowed)
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
            if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
                continue
            if not ast.get_docstring(node):
                found.append(f"{name}.{node.name}")
    return found


def test_imports_never_go_upward() -> None:
    assert upward(modules(ROOT)) == []


def test_imports_make_no_circle() -> None:
    assert circle(modules(ROOT)) == []


def test_doors() -> None:
    trees = modules(ROOT)
    assert outsiders(trees, "trl", ("recipe.",)) == []
    assert outsiders(trees, "wandb", ("recipe.tracking",)) == []
    assert outsiders(trees, "torch", ("rollouts.engines.", "eval.", "recipe.")) == []
    assert outsiders(trees, "transformers", ("rollouts.engines.", "rollouts.rendering", "eval.", "recipe.")) == []


def test_everything_public_says_what_it_is() -> None:
    assert undocumented(modules(ROOT)) == []


def test_the_checks_see_what_they_look_for(tmp_path: Path) -> None:
    for package in MAY_IMPORT:
        (tmp_path / package).mkdir()
    (tmp_path / "rollouts" / "a.py").write_text("def f():\n    from recipe.train import main\n    import trl\n")
    (tmp_path / "eval" / "b.py").write_text("from eval.c import x\n")
    (tmp_path / "eval" / "c.py").write_text("import eval.b\n")
    trees = modules(tmp_path)
    assert upward(trees) == ["rollouts.a imports recipe.train.main"]
    assert circle(trees) == ["eval.b", "eval.c", "eval.b"]
    assert outsiders(trees, "trl", ("recipe.",)) == ["rollouts.a"]
    assert undocumented(trees) == ["rollouts.a", "eval.b", "eval.c", "rollouts.a.f"]
