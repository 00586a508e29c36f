"""Every shipped YAML is read; what accelerate is told starts as many processes as it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from accelerate.commands.config.config_args import load_config_from_file

from recipe.arguments import parse

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_recipe_is_read(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = yaml.safe_load(path.read_text())["policy"]
    if policy.startswith("runs/"):
        # It goes on from another recipe's policy.
        (tmp_path / policy).mkdir(parents=True)
        monkeypatch.chdir(tmp_path)
    arguments = parse(["--config", str(path), "--output_dir", str(tmp_path)])
    assert arguments.source == str(path)
    assert arguments.output_dir == tmp_path
    written = yaml.safe_load(path.read_text())
    assert arguments.stages.stages == written["stages"]
    assert arguments.training.num_generations == written["num_generations"]


@pytest.mark.parametrize("path", sorted((CONFIGS / "accelerate").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_launch_config_is_read(path: Path) -> None:
    config: Any = load_config_from_file(str(path))
    assert config.num_processes == {"cpu": 1, "cpu_2proc": 2}.get(path.stem, 8)
    assert config.use_cpu == path.stem.startswith("cpu")
