"""One resolver for everything that a user may name in a YAML.

A name is either a short built-in one (``recall``) or an import path (``package.module:Name``).
An import path runs the code it names, as any import does: treat a YAML as code.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any


class UserError(Exception):
    """A mistake of the user's: its text is one sentence that names the field, the value and the remedy."""


def closest(name: str, known: Mapping[str, Any] | list[str]) -> str:
    """Return ``"did you mean 'x'?"`` for the known name nearest to ``name``, or the list of known names."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if near:
        return f"did you mean '{near[0]}'?"
    return f"known names are {', '.join(names)}" if names else "no names are known"


def resolve(name: str, builtin: Mapping[str, str], what: str) -> Any:
    """Return the object that ``name`` stands for.

    Args:
        name: A key of ``builtin`` or an import path ``package.module:Name``.
        builtin: Short names and the import paths they stand for.
        what: What is being named, as the error should call it (``"environment"``).

    Raises:
        UserError: The name is unknown, its module cannot be imported, or the module lacks the attribute.
    """
    path = builtin.get(name, name)
    module_name, separator, attribute = path.partition(":")
    if not separator or not module_name or not attribute or module_name.startswith("."):
        raise UserError(
            f"{what}: '{name}' is neither a built-in name nor 'package.module:Name'; {closest(name, builtin)}"
        )
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise UserError(f"{what}: '{name}' needs the package '{error.name}', which is not installed") from error
        raise UserError(
            f"{what}: there is no module '{module_name}' (from '{name}'); {closest(name, builtin)}"
        ) from error
    except ImportError as error:
        raise UserError(f"{what}: '{name}' cannot be imported ({error})") from error
    if not hasattr(module, attribute):
        public = [known for known in vars(module) if not known.startswith("_")]
        raise UserError(f"{what}: module '{module_name}' has no '{attribute}'; {closest(attribute, public)}")
    return getattr(module, attribute)
