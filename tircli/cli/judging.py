"""The command that judges and rewards: judge."""

from __future__ import annotations

from typing import Annotated

import typer

from tircli.cli.options import (
    EtGain,
    EtMalformed,
    EtSigmaLen,
    EtSigmaTool,
    Input,
    OnError,
    OtcAlpha,
    OtcC,
    OtcLiteral,
    OtcN,
    OtcScaleFormat,
    Output,
    Overwrite,
    Quiet,
    Resume,
    Reward,
    RewardFormat,
    RewardWrong,
    Round,
    Rounds,
    guarded,
)


def judge(
    input: Input = "-",
    output: Output = "-",
    judge: Annotated[
        str, typer.Option(help="auto, math, qa, exact or llm, or package.module:function.")
    ] = "auto",
    percent: Annotated[
        str, typer.Option(help="value: 50% is 0.5; sign: on both sides or none.")
    ] = "value",
    units: Annotated[
        str, typer.Option(help="optional: 12 is 12 cm; required: on both sides or none.")
    ] = "optional",
    second_opinion: Annotated[
        bool, typer.Option("--second-opinion", help="Ask the model where the rule says no.")
    ] = False,
    redundancy: Annotated[
        bool, typer.Option("--redundancy", help="Ask the model whether calls were needless.")
    ] = False,
    judge_model: Annotated[
        str | None, typer.Option(help="Model that judges: a folder or a served name.")
    ] = None,
    judge_engine: Annotated[str, typer.Option(help="hf, openai or scripted.")] = "hf",
    judge_url: Annotated[
        list[str] | None, typer.Option(help="Its server, .../v1; repeatable.")
    ] = None,
    judge_api_key_env: Annotated[
        str | None, typer.Option(help="Variable that holds its key, else OPENAI_API_KEY.")
    ] = None,
    judge_option: Annotated[
        list[str] | None, typer.Option(help="key=value of its engine; repeatable.")
    ] = None,
    votes: Annotated[int, typer.Option(min=1, help="Votes on correctness.")] = 1,
    redundancy_votes: Annotated[int, typer.Option(min=1, help="Votes on redundancy.")] = 10,
    tries: Annotated[int, typer.Option(min=1, help="Requests a vote while unclear.")] = 2,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens a reply.")] = 1024,
    seed: Annotated[int, typer.Option(help="Seed of the votes.")] = 0,
    prompt: Annotated[str, typer.Option(help="Grading prompt: a name or a .toml.")] = "correct",
    redundancy_prompt: Annotated[
        str, typer.Option(help="Redundancy prompt: a name or a .toml.")
    ] = "redundant",
    concurrency: Annotated[int, typer.Option(min=1, help="Requests under way.")] = 16,
    reward: Reward = None,
    calls_table: Annotated[
        str | None, typer.Option(help="JSON file of least calls by question; read, then updated.")
    ] = None,
    otc_c: OtcC = None,
    otc_alpha: OtcAlpha = 1.0,
    otc_n: OtcN = "global",
    otc_literal: OtcLiteral = False,
    otc_scale_format: OtcScaleFormat = False,
    reward_wrong: RewardWrong = 0.0,
    reward_format: RewardFormat = 0.0,
    et_sigma_tool: EtSigmaTool = 0.1,
    et_sigma_len: EtSigmaLen = 0.1,
    et_gain: EtGain = 1.0,
    et_malformed: EtMalformed = "add",
    round: Round = 1,
    rounds: Rounds = 1,
    report: Annotated[
        str | None, typer.Option(help="JSON file: graded, ungraded and why, requests.")
    ] = None,
    audit: Annotated[
        str | None, typer.Option(help="JSON file: disagreements of judges, answers to probes.")
    ] = None,
    overwrite: Overwrite = False,
    resume: Resume = False,
    on_error: OnError = "fail",
    quiet: Quiet = False,
) -> None:
    """Compare predictions with gold answers; score groups by a reward.

    In: trajectories, or lines with question, answer and prediction. Out: the same with correct
    (0..1; null = no verdict) and judge (name, why, em, format violations; redundant: true where a
    call was needless), and with --reward also reward and reward_parts. Nothing else changes.

    \b
    Examples:
      tir judge t.jsonl -o judged.jsonl
      tir rollout q.jsonl -m ./model -k 8 | tir judge --reward otc-grpo | tir metrics
      tir judge t.jsonl -o j.jsonl --second-opinion --redundancy --judge-model ./Qwen2.5-7B-Instruct
      tir judge t.jsonl -o j.jsonl --judge llm --judge-engine openai --judge-model qwen \\
        --judge-url http://localhost:8000/v1 --votes 3 --report coverage.json --audit audit.json
    """
    from tircli.stages import judge as stage

    options = dict(locals())
    options.pop("stage")
    raise guarded(lambda: stage.run(**options))
