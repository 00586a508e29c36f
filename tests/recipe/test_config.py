"""What a YAML may say, and the one sentence that meets what it may not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from recipe.arguments import parse
from recipe.config import LEFT_ALONE, TrainingConfig
from summarization.resolve import UserError


def refused(tmp_path: Path, *extra: str, **fields: Any) -> str:
    """What is said of a YAML with these fields."""
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({"output_dir": "out", "use_cpu": True, "bf16": False, **fields}))
    with pytest.raises(UserError) as caught:
        parse(["--config", str(path), *extra])
    said = str(caught.value)
    assert said.startswith(f"{path}: ")
    assert "\n" not in said
    return said


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"num_generations": 1}, "num_generations is 1: a group needs at least 2"),
        ({"loss_type": "grpo"}, "loss_type is 'grpo': it counts rows"),
        ({"loss_type": "bnpo"}, "use one of dapo, cispo"),
        ({"windw": 3}, "there is no field 'windw'; did you mean 'window'?"),
        ({"window": 0}, "window is 0"),
        ({"window": "big"}, "window"),
        ({"summary_tokens": 0}, "summary_tokens is 0"),
        ({"trigger_low": 0.0}, "trigger_low"),
        ({"trigger_low": 0.9, "trigger_high": 0.5}, "trigger_low"),
        ({"unfinished": "ignore"}, "unfinished is 'ignore'"),
        ({"prompt_style": "tiney"}, "did you mean 'tiny'"),
        ({"task_words": [5]}, "task_words"),
        ({"task_words": [9, 5]}, "task_words"),
        ({"stages": []}, "stages"),
        ({"stages": ["grpo", "grpo"]}, "stages"),
        ({"stages": ["midtrain"]}, "midtrain_steps"),
        ({"stages": ["eval"]}, "eval_lengths"),
        ({"stages": ["train"]}, "stages is 'train'"),
        ({"importance_correction": "tokens"}, "did you mean 'token'"),
        ({"policy_hidden": 30}, "policy_hidden is 30"),
        ({"policy_dtype": "float16"}, "policy_dtype"),
        ({"oversize": "drop"}, "oversize"),
        ({"midtrain_expert_share": 1.5}, "midtrain_expert_share is 1.5"),
        ({"summary_length_penalty": -1}, "summary_length_penalty"),
        ({"length_penalty_scale": 0}, "length_penalty_scale"),
        ({"token_budget": 0}, "token_budget"),
        ({"policy": "./nowhere/"}, "policy is './nowhere/'"),
        ({"frozen_policy": "./nowhere/"}, "frozen_policy is './nowhere/'"),
        ({"train_file": "nowhere.jsonl"}, "train_file is 'nowhere.jsonl'"),
    ],
)
def test_refusals_name_file_field_and_remedy(tmp_path: Path, fields: dict[str, Any], named: str) -> None:
    assert named in refused(tmp_path, **fields)


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_settings_under_which_cutting_would_show_are_refused(tmp_path: Path, name: str) -> None:
    other = {"eval_strategy": "steps", "top_entropy_quantile": 0.5, "entropy_coef": 0.1}.get(name, True)
    assert f"{name} is" in refused(tmp_path, **{name: other})


def test_files_that_are_no_yaml_are_refused(tmp_path: Path) -> None:
    for content, said in (("a: [", "no valid YAML"), ("- a\n- b\n", "holds a list"), ("a: 1\na: 2\n", "given twice"), ("", "NoneType")):
        path = tmp_path / "x.yaml"
        path.write_text(content)
        with pytest.raises(UserError) as caught:
            parse(["--config", str(path)])
        assert said in str(caught.value)
    with pytest.raises(UserError, match="cannot be read"):
        parse(["--config", str(tmp_path / "missing.yaml")])
    with pytest.raises(UserError, match="name a YAML file"):
        parse(["--config"])


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({"output_dir": "out", "window": 100, "use_cpu": True, "bf16": False}))
    arguments = parse(["--config", str(path), "--window", "200", "--task_kinds", "find", "latest"])
    assert arguments.episodes.window == 200
    assert arguments.episodes.task_kinds == ["find", "latest"]
    assert "windo" in refused(tmp_path, "--windoww", "200")


def test_the_defaults_are_the_recipes() -> None:
    config = TrainingConfig(output_dir="out", use_cpu=True, bf16=False)
    assert (config.loss_type, config.scale_rewards, config.beta) == ("dapo", "none", 0.0)
