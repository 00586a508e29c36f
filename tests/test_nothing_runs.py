"""Nothing runs that should not: data is never unpickled or evaluated, a model's code only where it was asked for."""

from __future__ import annotations

import ast
import pickle
from dataclasses import fields
from pathlib import Path

import pytest

from recipe.config import PolicyArguments
from recipe.task_rows import read_task_rows
from rollouts.storage import read_episodes
from rollouts.yaml_file import read_fields
from summarization.resolve import UserError
from tests.test_layers import ROOT, modules

# Whoever reads data with one of these runs what the data says.
RUNS_DATA = ("pickle", "cPickle", "cloudpickle", "dill", "joblib", "shelve", "marshal")
RUNS_TEXT = ("eval", "exec", "compile", "torch.load", "numpy.load", "np.load", "yaml.unsafe_load", "yaml.full_load")


def what_runs(tree: ast.AST) -> list[str]:
    """Imports and calls in a module that run what data says, and model code that is trusted without being asked."""
    found: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found += [alias.name for alias in names if alias.name.partition(".")[0] in RUNS_DATA]
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in RUNS_DATA:
                found.append(module)
            case ast.Call(func=function, keywords=keywords):
                name = ast.unparse(function)
                found += [name] if name in RUNS_TEXT else []
                for keyword in keywords:
                    if keyword.arg == "trust_remote_code" and ast.unparse(keyword.value) != "trust_code":
                        found.append(f"trust_remote_code={ast.unparse(keyword.value)}")
            case _:
                pass
    return found


def test_no_module_runs_what_data_says() -> None:
    assert {name: found for name, tree in modules(ROOT).items() if (found := what_runs(tree))} == {}


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from joblib import load",
        "def f(x):\n    return eval(x)",
        "torch.load(path)",
        "yaml.unsafe_load(text)",
        "AutoModel.from_pretrained(x, trust_remote_code=True)",
    ],
)
def test_such_a_line_is_seen(line: str) -> None:
    assert len(what_runs(ast.parse(line))) == 1


def test_a_models_code_is_not_trusted_by_default() -> None:
    (trust,) = [field for field in fields(PolicyArguments) if field.name == "trust_policy_code"]
    assert trust.default is False


class _Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.path,))


def test_files_that_would_run_code_are_refused(tmp_path: Path) -> None:
    ran, file = tmp_path / "ran", tmp_path / "data"
    file.write_bytes(pickle.dumps(_Touch(ran)))
    pickle.loads(file.read_bytes())
    assert ran.exists(), "the file is harmless, so this test shows nothing"
    ran.unlink()
    with pytest.raises(UserError):
        list(read_episodes(file))
    with pytest.raises(UserError):
        read_task_rows(file)
    with pytest.raises(UserError):
        read_fields(str(file), {})
    file.write_text(f"window: !!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path ['{ran}']]")
    with pytest.raises(UserError, match="no valid YAML"):
        read_fields(str(file), {"window": int})
    assert not ran.exists()
