"""The command that samples: rollout."""

from __future__ import annotations

from typing import Annotated

import typer

from tircli.cli.options import (
    Corpus,
    Input,
    OnError,
    Output,
    Overwrite,
    Quiet,
    Resume,
    SandboxImport,
    SandboxLayers,
    SandboxUrl,
    SearchBackend,
    SearchCache,
    SearchModel,
    SearchUrl,
    guarded,
)


def rollout(
    input: Input = "-",
    output: Output = "-",
    model: Annotated[
        str, typer.Option("--model", "-m", help="Model folder or name; replies for scripted.")
    ] = "",
    engine: Annotated[
        str, typer.Option(help="hf, vllm, openai, scripted, or package.module:Class.")
    ] = "hf",
    engine_option: Annotated[
        list[str] | None, typer.Option(help="key=value of the engine; repeatable, see README.")
    ] = None,
    base_url: Annotated[
        list[str] | None, typer.Option(help="Server of --engine openai, .../v1; repeatable.")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Variable that holds the key, else OPENAI_API_KEY.")
    ] = None,
    protocol: Annotated[str, typer.Option(help="How calls are written: a name or a .toml.")] = "et",
    samples: Annotated[
        int, typer.Option("--samples", "-k", min=1, help="Trajectories a question.")
    ] = 1,
    tools: Annotated[str, typer.Option(help="Tools the model may call, by comma.")] = "python",
    temperature: Annotated[float, typer.Option(min=0.0, help="0 is greedy.")] = 1.0,
    top_p: Annotated[float, typer.Option(min=0.0, max=1.0, help="Nucleus of sampling.")] = 1.0,
    max_tokens: Annotated[int, typer.Option(min=1, help="Model tokens a trajectory.")] = 4096,
    max_turns: Annotated[
        int | None, typer.Option(min=1, help="Turns a trajectory, else as the protocol says.")
    ] = None,
    max_calls: Annotated[
        int | None, typer.Option(min=0, help="Calls a trajectory, else as the protocol says.")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds a trajectory.")
    ] = None,
    run_max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Model tokens of the run; it ends with code 3.")
    ] = None,
    run_max_turns: Annotated[int | None, typer.Option(min=1, help="Turns of the run.")] = None,
    run_max_calls: Annotated[int | None, typer.Option(min=1, help="Calls of the run.")] = None,
    run_max_seconds: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds of the run.")
    ] = None,
    max_errors: Annotated[
        int | None, typer.Option(min=0, help="Error records before the run ends.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the run.")] = 0,
    concurrency: Annotated[
        int, typer.Option(min=1, help="Trajectories under way, for each server.")
    ] = 64,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N questions.")] = None,
    shard: Annotated[
        str | None, typer.Option(help="i/n: every n-th question from i (0..).")
    ] = None,
    final_turn: Annotated[
        bool, typer.Option("--final-turn/--no-final-turn", help="One answer turn at a limit.")
    ] = True,
    tokens: Annotated[
        bool, typer.Option("--tokens/--no-tokens", help="Keep ids and log-probabilities.")
    ] = True,
    tool_seconds: Annotated[float, typer.Option(min=0.1, help="Seconds a python call.")] = 10.0,
    tool_cpu_seconds: Annotated[
        float, typer.Option(min=0.1, help="CPU seconds a python call.")
    ] = 5.0,
    tool_memory_mb: Annotated[int, typer.Option(min=16, help="MB a python call may take.")] = 1024,
    sandbox: SandboxLayers = "preferred",
    sandbox_url: SandboxUrl = None,
    sandbox_import: SandboxImport = "",
    corpus: Corpus = "",
    search_backend: SearchBackend = "",
    search_url: SearchUrl = "",
    search_model: SearchModel = "",
    search_cache: SearchCache = "",
    topk: Annotated[
        int | None, typer.Option(min=1, max=100, help="Passages shown, else as the protocol says.")
    ] = None,
    overwrite: Overwrite = False,
    resume: Resume = False,
    on_error: OnError = "fail",
    quiet: Quiet = False,
    log_json: Annotated[
        str | None, typer.Option(help="File for progress as JSON lines, every 10 s.")
    ] = None,
) -> None:
    """Let a model answer questions while it calls tools.

    In: questions (question, answer, id, task) or unfinished trajectories. Out: one trajectory a
    line: segments (who wrote what, with ids), stop, prediction.

    \b
    Examples:
      tir rollout q.jsonl -m ./Qwen2.5-7B-Instruct -k 8 -o t.jsonl
      tir rollout sample_data/math.jsonl --engine scripted -m sample_data/replies.jsonl | tir judge
      tir rollout q.jsonl -m ./model --protocol torl -o t.jsonl --resume
      tir rollout q.jsonl -m ./model --tools python,search --corpus passages.jsonl -o t.jsonl
      tir rollout q.jsonl -m Qwen/Qwen2.5-7B-Instruct --engine openai \\
        --base-url http://a:8000/v1 --base-url http://b:8000/v1 -k 16 -o t.jsonl
    """
    from tircli.stages import rollout as stage

    options = dict(locals())
    options.pop("stage")
    raise guarded(lambda: stage.run(**options))
