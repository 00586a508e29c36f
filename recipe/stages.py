"""The stages of a run and what they leave in its folder.

output_dir/
  arguments.yaml         what was asked for
  history.jsonl          every log of every stage
  midtrain/              the policy after mid-training (the untrained baseline), skills.json
  grpo/checkpoint-N/     what a cut run resumes from
  policy/                the policy after GRPO: loads with AutoModelForCausalLM
  eval/                  finished evaluation cells, one a file
  seconds.json           what each stage took
  report.json, report.md, report.png
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import yaml
from accelerate import PartialState
from datasets import Dataset
from rich.console import Console
from transformers import PrinterCallback

from eval.results import Cell
from recipe.arguments import Arguments
from recipe.checkpoints import last_whole_checkpoint, step_of
from recipe.checks import check_credit_rule, check_rows, check_tasks, check_whole_copy, first_rows
from recipe.credit import with_advantages
from recipe.evaluation import HELD_OUT_SEED, EvaluateWhileTraining, HeldOut, Measure, make_strategy, measures
from recipe.figures import figures
from recipe.midtrain import Skills, check_demonstrable, held_out_drills, measure_skills, midtrain
from recipe.policy import check_frozen, load_frozen, load_policy
from recipe.precision import apply_precision, choose_precision
from recipe.rollout import Collector, embedded_engine
from recipe.task_rows import read_task_rows
from recipe.tracking import AtLastStep, Progress, Stopwatch, clock, name_wandb_run, quiet, read_history
from recipe.trainer import SelfSummarizationTrainer
from rollouts.collect import opened
from rollouts.engines.transformers import TransformersEngine
from rollouts.environment import BUILTIN as ENVIRONMENTS
from rollouts.environments.recall import tasks
from rollouts.episode import Status
from rollouts.files import write_atomically
from rollouts.jobs import environment_maker, environment_makers, jobs
from rollouts.policies.load import Policy
from rollouts.records import read_record
from rollouts.rendering import Renderer
from rollouts.storage import EpisodeWriter
from summarization.resolve import UserError
from summarization.strategies import Strategy

# Fields that may differ when a run is resumed: they change what is shown, not what is computed.
FREE_FIELDS = ("report_to", "logging_steps", "save_steps", "stages", "source")


class Run:
    """One run: its arguments, its folder, and a method for each stage.

    Raises:
        UserError: The folder holds a run of other arguments, or the first episode cannot be opened.
    """

    def __init__(self, arguments: Arguments) -> None:
        quiet()
        self.arguments = arguments
        self.folder = arguments.output_dir
        self.main = arguments.training.process_index == 0
        self.console = Console(quiet=not self.main)
        self.stopwatch = Stopwatch(self.folder / "seconds.json", writes=self.main)
        episodes = arguments.episodes
        self.environment = (
            environment_makers(episodes.environments, episodes.environment_kwargs)
            if episodes.environments
            else environment_maker(episodes.environment, episodes.environment_kwargs)
        )
        self.strategy = make_strategy(arguments.compaction, arguments.compaction.strategy)
        check_credit_rule(arguments.credit.credit)
        check_tasks(arguments)
        if "grpo" in arguments.stages.stages:
            check_whole_copy()
            self.check_batch()
        if "midtrain" in arguments.stages.stages:
            check_demonstrable(arguments.episodes, arguments.compaction)
        self.policy = load_policy(arguments.policy)
        self.renderer = Renderer(self.policy.tokenizer, template_kwargs=arguments.policy.template_kwargs)
        check_frozen(arguments.policy, self.policy.tokenizer.get_vocab())
        self.open_episodes()
        self.claim_folder()
        if arguments.policy.precision is not None:
            precision = choose_precision(
                arguments.policy.precision,
                self.policy.model,
                arguments.episodes.window,
                self.folder / "precision.json",
            )
            apply_precision(precision, arguments.training)
            self.console.print(f"precision: {precision.reason}", highlight=False, soft_wrap=True)
        name_wandb_run(self.folder)

    @cached_property
    def held_out(self) -> HeldOut:
        """The evaluation on held-out tasks."""
        a, cells = self.arguments, self.folder / "eval"
        return HeldOut(self.renderer, self.environment, a.episodes, a.stages, bool(a.training.bf16), cells)

    def check_batch(self) -> None:
        """Refuse fewer tasks than one batch takes: TRL would train no step and say so in passing.

        Raises:
            UserError: There are fewer.
        """
        training, episodes = self.arguments.training, self.arguments.episodes
        needed = cast(int, training.generation_batch_size) // cast(int, training.num_generations)
        found = episodes.train_tasks if episodes.train_file is None else len(self.file_rows)
        if found < needed:
            held = f"train_tasks is {found}" if episodes.train_file is None else f"{episodes.train_file} holds {found}"
            raise UserError(
                f"{held}: a batch of {training.generation_batch_size} episodes in groups of {training.num_generations} "
                f"takes {needed} tasks; give more, or lower per_device_train_batch_size"
            )

    def open_episodes(self) -> None:
        """Reset environments and render first prompts, so that what cannot work is refused before training: the first
        training task, every row of a file where that is cheap, and each cell that is to be evaluated.

        Raises:
            UserError: The window is too small, or the environment fails.
        """
        for task in self.train_tasks(1):
            self.open_episode(task, self.strategy)
        episodes = self.arguments.episodes
        if isinstance(self.environment, dict):
            for task in first_rows(self.file_rows, self.environment, Path(str(episodes.train_file))):
                self.open_episode(task, self.strategy)
        elif episodes.train_file is not None and episodes.environment in ENVIRONMENTS:
            check_rows(self.file_rows, self.environment, Path(episodes.train_file))
        if "eval" in self.arguments.stages.stages:
            for measure in measures(self.arguments.compaction, self.arguments.stages):
                try:
                    (task,) = tasks("test", 1, measure.length, episodes.task_kinds, HELD_OUT_SEED)
                    self.open_episode(task, measure.strategy)
                except UserError as error:
                    factor = self.arguments.stages.eval_baseline_factor
                    field = f"eval_baseline_factor is {factor}" if measure.name.endswith("x") else "stages has 'eval'"
                    raise UserError(f"{field}: '{measure.name}' cannot be evaluated ({error})") from error

    def open_episode(self, task: Mapping[str, Any], strategy: Strategy) -> None:
        """Play one episode up to its first sample.

        Raises:
            UserError: The window is too small, or the environment fails.
        """
        for job in jobs([task], self.environment, strategy, seed=0):
            ended = opened(job, self.renderer, self.arguments.episodes.limits())
            if ended is not None and ended.status is not Status.FINISHED:
                raise UserError(
                    f"environment is '{self.arguments.episodes.environment}': its first episode failed "
                    f"({ended.error or ended.status.value}); correct it, or the task row that it was given"
                )

    def train_tasks(self, count: int) -> list[dict[str, Any]]:
        """The first ``count`` training tasks, drawn or read.

        Raises:
            UserError: A line of the task file is no JSON object.
        """
        episodes = self.arguments.episodes
        if episodes.train_file is None:
            words = (episodes.task_words[0], episodes.task_words[1])
            return list(tasks("train", count, words, episodes.task_kinds, self.arguments.training.seed))
        return self.file_rows[:count]

    @cached_property
    def file_rows(self) -> list[dict[str, Any]]:
        """The rows of ``train_file``."""
        return read_task_rows(Path(cast(str, self.arguments.episodes.train_file)))

    def claim_folder(self) -> None:
        """Record what was asked for; refuse to mix it with a run of other arguments."""
        asked = json.loads(json.dumps(self._asked(), default=str))
        path = self.folder / "arguments.yaml"
        if path.is_file():
            before = read_record(path, f"delete the folder '{self.folder}', or name another output_dir", dict)
            for field in sorted(set(asked) | set(before)):
                if asked.get(field) != before.get(field) and field not in FREE_FIELDS:
                    raise UserError(
                        f"output_dir is '{self.folder}': it holds a run with {field} = {before.get(field)!r}, now "
                        f"it is {asked.get(field)!r}; name another output_dir, or delete the folder"
                    )
        elif self.main:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                write_atomically(path, yaml.safe_dump(asked).encode())
            except OSError as error:
                raise UserError(f"output_dir is '{self.folder}': cannot be written ({error.strerror})") from error

    def midtrain(self) -> None:
        """Stage 1. Refuses to go on where the policy cannot copy or look up."""
        a, folder = self.arguments, self.folder / "midtrain"
        if not (folder / "skills.json").is_file():
            self.console.rule("mid-training")
            count = a.stages.midtrain_steps * a.stages.midtrain_batch
            self.console.print(f"midtrain  writing {count:,} demonstrations", highlight=False)
            progress = Progress("midtrain", self.folder / "history.jsonl", self.console)
            checkpoint = last_whole_checkpoint(folder, self.console)
            midtrain(
                self.policy,
                self.renderer,
                a.episodes,
                a.compaction,
                a.stages,
                folder,
                a.training.seed,
                [progress],
                list(a.training.report_to or []),
                checkpoint,
            )
            drills = held_out_drills(self.renderer, a.episodes, a.compaction, 100, a.training.seed)
            skills = measure_skills(self.policy, self.renderer, drills)
            if self.main:
                write_atomically(folder / "skills.json", json.dumps(asdict(skills)).encode())
            PartialState().wait_for_everyone()
        skills = read_record(
            folder / "skills.json",
            "delete it, and mid-training goes on from its last checkpoint",
            lambda found: Skills(float(found["copying"]), float(found["lookup"])),
        )
        self.console.print(f"copying {skills.copying:.3f}, lookup {skills.lookup:.3f} (shares of tokens right)")
        least = a.stages.midtrain_least_accuracy
        if min(skills.copying, skills.lookup) < least:
            raise UserError(
                f"mid-training ended with copying {skills.copying:.3f} and lookup {skills.lookup:.3f}, under "
                f"midtrain_least_accuracy = {least}: GRPO would have nothing to choose from; raise midtrain_span_steps "
                "or midtrain_steps"
            )

    def grpo(self) -> None:
        """Stage 2."""
        a, final = self.arguments, self.folder / "policy"
        if (final / "done.json").is_file():
            return
        self.console.rule("GRPO with self-summarization")
        policy = self.before()
        args = a.training
        args.output_dir = str(self.folder / "grpo")
        args.disable_tqdm = True
        engine = self.training_engine(policy)
        writer = self.frozen() if self.strategy.sampler == "frozen" else None
        frozen = self.training_engine(writer) if writer else None
        collector = Collector(
            engine, self.renderer, self.environment, self.strategy, a.episodes.limits(), args.seed, frozen
        )
        callbacks: list[Any] = [Progress("grpo", self.folder / "history.jsonl", self.console)]
        evaluation = None
        if a.stages.eval_every:
            evaluation = EvaluateWhileTraining(
                self.held_out, self.strategy, a.stages.eval_every, writer.model if writer else None
            )
            callbacks.append(evaluation)
        trainer = SelfSummarizationTrainer(
            model=policy.model,
            args=args,
            train_dataset=Dataset.from_list(self.train_tasks(a.episodes.train_tasks)),
            processing_class=policy.tokenizer,
            callbacks=callbacks,
            collector=collector,
            credit=a.credit,
        )
        if evaluation is not None:
            evaluation.trainer = trainer
        trainer.remove_callback(PrinterCallback)
        if a.stages.save_transcripts and self.main:
            trainer.add_callback(AtLastStep(lambda: self.save_transcripts(trainer)))
        checkpoint = last_whole_checkpoint(Path(args.output_dir), self.console)
        if checkpoint is not None and 0 < args.max_steps <= step_of(checkpoint):
            # The trainer would take one step more before it saw that all are done.
            trainer._load_from_checkpoint(checkpoint)
            trainer.state.global_step = step_of(checkpoint)
        else:
            trainer.train(resume_from_checkpoint=checkpoint)
        trainer.save_model(str(final))
        if self.main:
            write_atomically(final / "done.json", json.dumps({"steps": trainer.state.global_step}).encode())
        PartialState().wait_for_everyone()

    def eval(self) -> None:
        """The last stage: every cell that is missing, dealt out to the processes, then the report."""
        a = self.arguments
        self.console.rule("evaluation on held-out tasks")
        finished = self.held_out.finished()
        wanted = list(measures(a.compaction, a.stages))
        after = self.folder / "policy" if (self.folder / "policy" / "done.json").is_file() else None
        models = {
            "before": self.before().model,
            "after": (load_policy(a.policy, after) if after else self.before()).model,
        }
        frozen = self.frozen().model
        state = PartialState()
        missing = [measure for measure in wanted if measure.key not in finished]
        mine = self.held_out.dealt(missing, state.num_processes)[state.process_index]
        for measure in mine:
            engines = {"policy": self.held_out.engine(models[measure.stage])}
            if measure.strategy.sampler == "frozen":
                engines["frozen"] = self.held_out.engine(frozen)
            self.say(measure, self.held_out.run(measure, engines))
        state.wait_for_everyone()
        if not self.main:
            return
        finished = self.held_out.finished()
        for measure in wanted:
            if measure not in mine:
                self.say(measure, finished[measure.key])
        seconds = self.stopwatch.seconds()
        path = figures(
            self.folder,
            [finished[measure.key] for measure in wanted],
            a,
            read_history(self.folder / "history.jsonl", "grpo"),
            seconds,
        )
        self.console.print(f"report: {path} ({clock(sum(seconds.values()))} in all)", highlight=False, soft_wrap=True)

    def say(self, measure: Measure, cell: Cell) -> None:
        """A line for a finished cell."""
        self.console.print(
            f"    eval  {measure.stage:>6} {measure.name:<16} {measure.length:>7} words  success {cell.success:.3f}  "
            f"n {len(cell.outcomes)}",
            highlight=False,
            soft_wrap=True,
        )

    def before(self) -> Policy:
        """The policy as GRPO found it: mid-trained where that stage is part of the run."""
        a, folder = self.arguments, self.folder / "midtrain"
        if (folder / "skills.json").is_file():
            return load_policy(a.policy, folder)
        policy = load_policy(a.policy)
        if a.training.beta != 0.0 and not policy.model.name_or_path:
            # TRL loads the reference model of the KL term from where the policy came from.
            start = self.folder / "start"
            policy.model.save_pretrained(start)
            policy.tokenizer.save_pretrained(start)
            policy = load_policy(a.policy, start)
        return policy

    def frozen(self) -> Policy:
        """The policy that writes the summaries of ``frozen_summary``."""
        named = self.arguments.policy.frozen_policy
        if named is None:
            return self.before()
        return load_frozen(self.arguments.policy, named)

    def training_engine(self, policy: Policy) -> TransformersEngine:
        """An engine that samples as the loss will score."""
        a = self.arguments
        return embedded_engine(policy.model, self.renderer, a.episodes, a.training.temperature, bool(a.training.bf16))

    def save_transcripts(self, trainer: SelfSummarizationTrainer) -> None:
        """Write episodes of the last batch, as text for people and with their tokens for programs."""
        last = trainer.last[: self.arguments.stages.save_transcripts]
        chosen = [with_advantages(episode, turns) for episode, turns in last]
        folder = self.folder / "transcripts"
        for episode in chosen:
            path = folder / f"{episode.task_id}-{episode.attempt}.txt"
            write_atomically(path, self.renderer.transcript(episode).encode("utf-8", "replace"))
        if chosen:
            whole = folder / "episodes.jsonl.gz"
            aside = folder / f".{whole.name}"
            # A run that was cut at its last step comes here twice, and must not save its episodes twice.
            aside.unlink(missing_ok=True)
            with EpisodeWriter(aside, {"policy": self.arguments.policy.policy}) as writer:
                for episode in chosen:
                    writer.append(episode)
            aside.replace(whole)

    def _asked(self) -> dict[str, Any]:
        a = self.arguments
        groups = (a.policy, a.episodes, a.compaction, a.credit, a.stages)
        training = {
            name: value
            for name, value in a.training.to_dict().items()
            if name not in ("logging_dir", "run_name", "output_dir") and "token" not in name.split("_")
        }
        return {**training, **{key: value for group in groups for key, value in asdict(group).items()}}
