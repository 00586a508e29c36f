"""What a YAML may say, and the one sentence that meets what it may not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from recipe.arguments import _hints, parse
from recipe.config import LEFT_ALONE, TrainingConfig
from rollouts.yaml_file import read_fields
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
        ({"token_budget": 0}, "token_budget is 0: must be a number of at least 1"),
        ({"num_generations": None}, "num_generations is None: a group needs at least 2"),
        ({"scale_rewards": "batch"}, "scale_rewards is 'batch': baseline and deviation are of one group"),
        ({"importance_cap": 0}, "importance_cap is 0: must be a number above 0"),
        ({"beta": -0.1}, "beta is -0.1: must be a number of at least 0"),
        ({"malformed_penalty": float("nan")}, "malformed_penalty is nan: must be a number of at least 0"),
        ({"length_penalty_scale": float("inf")}, "length_penalty_scale is inf: must be a number above 0"),
        ({"eval_lengths": [700, 0]}, "eval_lengths is [700, 0]: each must be at least 1 word"),
        ({"midtrain_words": [700]}, "midtrain_words is [700]: must be two whole numbers"),
        ({"policy": "./nowhere/"}, "policy is './nowhere/'"),
        ({"frozen_policy": "./nowhere/"}, "frozen_policy is './nowhere/'"),
        ({"train_file": "nowhere.jsonl"}, "train_file is 'nowhere.jsonl'"),
    ],
)
def test_refusals_name_file_field_and_remedy(tmp_path: Path, fields: dict[str, Any], named: str) -> None:
    assert named in refused(tmp_path, **fields)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"window": 3.5}, "window is 3.5: must be a whole number"),
        ({"window": True}, "window is True: must be a whole number"),
        ({"window": None}, "window is None: must be a whole number"),
        ({"trigger_low": [1]}, "trigger_low is [1]: must be a number"),
        ({"learning_rate": True}, "learning_rate is True: must be a number"),
        ({"skip_idle_rows": 1}, "skip_idle_rows is 1: must be true or false"),
        ({"policy": 3}, "policy is 3: must be text"),
        ({"frozen_policy": 3}, "frozen_policy is 3: must be text or null"),
        ({"loss_type": None}, "loss_type is None: must be text"),
        ({"num_generations": 2.5}, "num_generations is 2.5: must be a whole number or null"),
        ({"stages": "grpo"}, "stages is 'grpo': must be a list, each item text"),
        ({"task_kinds": [1]}, "task_kinds is [1]: must be a list, each item text"),
        ({"task_words": 5}, "task_words is 5: must be a list, each item a whole number"),
        ({"eval_lengths": [700, "long"]}, "eval_lengths is [700, 'long']: must be a list, each item a whole number"),
        ({"environment_kwargs": "page_words"}, "environment_kwargs is 'page_words': must be a mapping"),
        ({"template_kwargs": [1]}, "template_kwargs is [1]: must be a mapping"),
        ({"model_init_kwargs": 3}, "model_init_kwargs is 3: must be a mapping or text or null"),
        # Text is converted by argparse, which has its own words.
        ({"window": "big"}, "--window: invalid int value: 'big'"),
        ({"learning_rate": "fast"}, "invalid float value: 'fast'"),
    ],
)
def test_values_of_another_type_are_refused(tmp_path: Path, fields: dict[str, Any], said: str) -> None:
    assert said in refused(tmp_path, **fields)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--window", "big"], "--window: invalid int value: 'big'"),
        (["--window", "3.5"], "--window: invalid int value: '3.5'"),
        (["--window"], "--window: expected one argument"),
        (["--stages"], "--stages: expected at least one argument"),
        (["--skip_idle_rows", "perhaps"], "got perhaps but expected one of yes/no"),
        (["--trigger_low", "nan"], "trigger_low, trigger_high: "),
        (["--num_generations", "1"], "num_generations is 1: a group needs at least 2"),
        (["--loss_type", "grpo"], "loss_type is 'grpo': it counts rows"),
        (["--stages", "grop"], "stages is 'grop': did you mean 'grpo'?"),
        (["--windoww", "5"], "there is no field 'windoww'; did you mean 'window'?"),
        (["--task-wordz=5"], "there is no field 'task_wordz'; did you mean 'task_words'?"),
        (["stray"], "stray"),
    ],
)
def test_refusals_of_the_command_line(tmp_path: Path, flags: list[str], said: str) -> None:
    assert said in refused(tmp_path, *flags)


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"learning_rate": "1e-5"}, "learning_rate", 1e-5),  # YAML reads 1e-5 as text
        ({"learning_rate": 1}, "learning_rate", 1),
        ({"report_to": "none"}, "report_to", []),
        ({"num_generations": 4, "per_device_train_batch_size": 8}, "num_generations", 4),
        ({"skip_idle_rows": False}, "skip_idle_rows", False),
        ({"lr_scheduler_kwargs": {"min_lr": 0.1}}, "lr_scheduler_kwargs", {"min_lr": 0.1}),
    ],
)
def test_values_of_the_right_type_pass(tmp_path: Path, fields: dict[str, Any], name: str, value: object) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({"output_dir": "out", "use_cpu": True, "bf16": False, **fields}))
    assert getattr(parse(["--config", str(path)]).training, name) == value


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_settings_under_which_cutting_would_show_are_refused(tmp_path: Path, name: str) -> None:
    others = {"eval_strategy": "steps", "top_k": 5, "resume_from_checkpoint": "runs/other"}
    shares = dict.fromkeys(("top_entropy_quantile", "entropy_coef", "top_p", "min_p", "repetition_penalty"), 0.5)
    other = {**others, **shares}.get(name, True)
    assert f"{name} is" in refused(tmp_path, **{name: other})


def test_files_that_are_no_yaml_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    for content, said in (
        (b"a: [", "no valid YAML"),
        (b"- a\n- b\n", "holds a list"),
        (b"window: 1\nwindow: 2\n", "field 'window' is given twice"),
        (b"", "holds a NoneType"),
        (b"output_dir: \xff", "cannot be read"),
    ):
        path.write_bytes(content)
        with pytest.raises(UserError) as caught:
            parse(["--config", str(path)])
        assert str(caught.value).startswith(f"{path}: ")
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="cannot be read"):
        parse(["--config", str(tmp_path / "missing.yaml")])
    with pytest.raises(UserError, match=r"missing\.yaml: cannot be read"):
        parse([f"--config={tmp_path / 'missing.yaml'}"])
    with pytest.raises(UserError, match="name a YAML file"):
        parse(["--config"])


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({"output_dir": "out", "window": 100, "use_cpu": True, "bf16": False}))
    arguments = parse(["--config", str(path), "--window", "200", "--task_kinds", "find", "latest"])
    assert arguments.episodes.window == 200
    assert arguments.episodes.task_kinds == ["find", "latest"]
    joined = parse([f"--config={path}", "--window=300"])
    assert (joined.source, joined.episodes.window, joined.output_dir) == (str(path), 300, Path("out"))
    assert parse([f"--config={path}"]).episodes.window == 100
    assert "windo" in refused(tmp_path, "--windoww", "200")


def test_mappings_can_be_given_on_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("output_dir: here\nuse_cpu: true\nbf16: false\nwindow: 100\nenvironment_kwargs: {page_words: 20}\n")
    for flags in (["--environment_kwargs", "{page_words: 40}"], ["--environment_kwargs={page_words: 40}"]):
        arguments = parse(["--config", str(path), *flags, "--act_tokens", "9"])
        assert arguments.episodes.environment_kwargs == {"page_words": 40}
        assert (arguments.episodes.window, arguments.episodes.act_tokens) == (100, 9)
        assert arguments.source == str(path)
    others = ["--output_dir", "here", "--use_cpu", "--bf16", "false"]
    assert parse([*others, *flags]).episodes.environment_kwargs == {"page_words": 40}
    for wrong in ("40", "[1]", "{", ""):
        with pytest.raises(UserError, match=r"environment_kwargs is .*must be a mapping"):
            parse(["--config", str(path), "--environment_kwargs", wrong])


def test_the_defaults_are_the_recipes() -> None:
    config = TrainingConfig(output_dir="out", use_cpu=True, bf16=False)
    assert (config.loss_type, config.scale_rewards, config.beta) == ("dapo", "none", 0.0)


VALUES = [-1, 0, 2.5, float("nan"), float("inf"), "x", "", None, True, [], {}, [1], ["a"], {"a": 1}, 10**30, [[1]]]


@pytest.mark.slow
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_every_field_takes_any_value_or_refuses_it_in_a_sentence(tmp_path: Path, value: object) -> None:
    path = tmp_path / "run.yaml"
    refusals = 0
    for name in _hints():
        fields = {"output_dir": "out", "use_cpu": True, "bf16": False, "report_to": "none", name: value}
        path.write_text(yaml.safe_dump(fields))
        said = refusal(path)
        refusals += said is not None
        assert said is None or (said.startswith(f"{path}: ") and "\n" not in said)
    assert refusals > 50


def refusal(path: Path) -> str | None:
    """What is said of a YAML; None where it is taken."""
    try:
        parse(["--config", str(path)])
    except UserError as error:
        return str(error)
    return None


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
YAML = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(SCALARS, v, max_size=3))


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(_hints())) | st.text(max_size=4), YAML, max_size=3) | YAML)
def test_any_yaml_is_fields_or_refused(tmp_path_factory: pytest.TempPathFactory, content: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8", errors="surrogatepass")
    assert what_fields_say(path) is None or str(path) in str(what_fields_say(path))


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=40) | st.text(alphabet="a:[]{}-&*!|>'\"%@ \n01.", max_size=40).map(str.encode))
def test_any_bytes_are_fields_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.yaml"
    path.write_bytes(content)
    assert what_fields_say(path) is None or str(path) in str(what_fields_say(path))


@pytest.mark.parametrize(
    "content", ["[" * 5000, "a: " * 5000, "? " * 5000, "day: 2026-13-40", "!!int x: 1", "{[1]: 2}"]
)
def test_what_the_yaml_library_trips_over_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(content)
    said = what_fields_say(path)
    assert said is not None
    assert "\n" not in said


def what_fields_say(path: Path) -> str | None:
    """What is said of a file of fields; None where it is taken."""
    try:
        read_fields(str(path), _hints())
    except UserError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"output_dir": ""}, "output_dir is '': name the folder that keeps the run"),
        ({"output_dir": None}, "output_dir is None: name the folder that keeps the run"),
        ({"epsilon": -0.1}, "epsilon is -0.1: must be a number of at least 0"),
        ({"epsilon_high": -1.0}, "epsilon_high is -1.0"),
        ({"keep_last": -1}, "keep_last is -1"),
        ({"seed": -1}, "seed is -1"),
        ({"policy_seed": -1}, "policy_seed is -1"),
        ({"num_iterations": 0}, "num_iterations is 0"),
        ({"save_steps": 0}, "save_steps is 0"),
        ({"max_grad_norm": -1.0}, "max_grad_norm is -1.0"),
        ({"adam_beta2": 1.0}, "adam_beta1, adam_beta2 is (0.9, 1.0)"),
        ({"num_train_epochs": 0.0}, "num_train_epochs is 0.0"),
        ({"midtrain_learning_rate": 0.0}, "midtrain_learning_rate is 0.0"),
        ({"accelerator_config": "nowhere.json"}, "nowhere.json"),
    ],
)
def test_numbers_out_of_range_and_a_run_without_a_folder_are_refused(
    tmp_path: Path, fields: dict[str, Any], said: str
) -> None:
    assert said in refused(tmp_path, **fields)


def test_two_configs_are_refused() -> None:
    with pytest.raises(UserError, match="--config: is given twice"):
        parse(["--config", "one.yaml", "--config", "other.yaml"])
