"""The commands of `tir`, their options and exit codes; the only module with typer."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import Annotated

import typer

import tircli

app = typer.Typer(
    name="tir",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Input = Annotated[str, typer.Argument(metavar="[INPUT]", help="JSONL file; - is stdin.")]
Output = Annotated[str, typer.Option("--output", "-o", help="JSONL file; - is stdout.")]
OnError = Annotated[str, typer.Option(help="What a bad line does: fail or skip.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing output.")]
Resume = Annotated[bool, typer.Option("--resume", help="Keep what is whole, do the rest.")]
Plot = Annotated[str | None, typer.Option(help="Picture: a .png, .svg or .html file.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]

# The options of rewards, wherever a reward is named.
Reward = Annotated[
    str | None, typer.Option(help="correct, otc-ppo, otc-grpo or et, or package.module:function.")
]
OtcC = Annotated[float | None, typer.Option(help="OTC: smoothness c; else the limit of calls.")]
OtcAlpha = Annotated[float, typer.Option(help="OTC: factor alpha.")]
OtcN = Annotated[str, typer.Option(help="OTC: least calls of the group (local) or ever (global).")]
OtcLiteral = Annotated[bool, typer.Option("--otc-literal", help="OTC: score, then lower n.")]
OtcScaleFormat = Annotated[
    bool, typer.Option("--otc-scale-format", help="OTC: scale the format part too.")
]
RewardWrong = Annotated[float, typer.Option(help="Not et: reward of a wrong answer (ToRL: -1).")]
RewardFormat = Annotated[float, typer.Option(help="Not et: added where the form is right.")]
EtSigmaTool = Annotated[float, typer.Option(help="ET: sigma for calls in round 1.")]
EtSigmaLen = Annotated[float, typer.Option(help="ET: sigma for lengths in round 1.")]
EtGain = Annotated[float, typer.Option(help="ET: factor on both scores; the released code has 2.")]
EtMalformed = Annotated[str, typer.Option(help="ET: a malformed one: add -1, or replace by -1.")]
Round = Annotated[int, typer.Option(help="ET: this round, from 1; sigma falls with it.")]
Rounds = Annotated[int, typer.Option(help="ET: rounds in all.")]
SandboxLayers = Annotated[
    str, typer.Option("--sandbox", help="preferred, weak, or required=ns,landlock,seccomp.")
]
SandboxUrl = Annotated[
    str | None, typer.Option(help="A SandboxFusion-like service instead of the own sandbox.")
]
SandboxImport = Annotated[
    str, typer.Option(help="Packages beyond numpy and sympy, by comma; * is all installed.")
]

# The options of search, wherever a corpus is searched.
Corpus = Annotated[
    str, typer.Option(help="Searched: an index, or a corpus file (indexed on first use).")
]
SearchBackend = Annotated[
    str, typer.Option(help="bm25, lucene, dense, http, serper or searxng; else what is given.")
]
SearchUrl = Annotated[
    str, typer.Option(help="Search server: .../retrieve, .../search or .../batch_search.")
]
SearchModel = Annotated[str, typer.Option(help="Encoder of a dense index, if it has moved.")]
SearchCache = Annotated[str, typer.Option(help="SQLite file that keeps what was found.")]


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"tir {tircli.__version__}")
        raise typer.Exit


@app.callback()
def _app(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Sample, judge and measure tool-integrated reasoning; every command reads and writes JSONL.

    \b
    Exit codes: 0 done; 1 a bug or a failed --fail-under; 2 yours to fix; 3 done, but lines were
    skipped or records have errors; 130 interrupted; 141 the reader went away.
    """


@app.command()
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
    raise _guarded(lambda: stage.run(**options))


@app.command()
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
    """Compare each prediction with its gold answers; score groups with a reward.

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
    raise _guarded(lambda: stage.run(**options))


@app.command()
def pareto(
    keep: Annotated[int, typer.Option("--keep", min=1, help="Groups to keep.")],
    input: Input = "-",
    output: Output = "-",
    keep_uniform: Annotated[
        bool, typer.Option("--keep-uniform", help="Also groups all right or all wrong.")
    ] = False,
    pool: Annotated[
        bool, typer.Option("--pool", help="One population; else tasks in proportion.")
    ] = False,
    report: Annotated[
        str | None, typer.Option(help="JSON file: fronts, kept, shortfall, set aside and why.")
    ] = None,
    plot: Plot = None,
    overwrite: Overwrite = False,
    on_error: OnError = "fail",
    quiet: Quiet = False,
) -> None:
    """Keep the groups whose samples differ most in correctness and calls.

    In: groups of trajectories; where correct is null, the rule judge fills it. Out: the groups that
    are kept, whole, in the order of the input. A group is scored by the standard deviations of
    correct and of calls over its members that have correct; those with an error, unfinished or
    without a gold answer are left out of the score. Kept front by front (non-dominated sorting),
    the last front by crowding distance. A pipe is copied to a temporary file (TMPDIR) on its way.

    \b
    Examples:
      tir pareto judged.jsonl --keep 64 -o hard.jsonl --report report.json
      tir rollout q.jsonl -m ./model -k 16 | tir pareto --keep 64 | tir metrics
    """
    from tircli.stages import pareto as stage

    raise _guarded(
        lambda: stage.run(
            input,
            output,
            keep,
            keep_uniform=keep_uniform,
            pool=pool,
            report=report,
            plot=plot,
            overwrite=overwrite,
            on_error=on_error,
            quiet=quiet,
        )
    )


@app.command()
def metrics(
    input: Input = "-",
    by: Annotated[
        list[str] | None,
        typer.Option(help="Also for each value of a field (made.model; a,b crosses); repeatable."),
    ] = None,
    pass_at: Annotated[
        str | None, typer.Option(help="The k of pass@k, by comma; else powers of two.")
    ] = None,
    against: Annotated[
        str | None, typer.Option("--compare", help="Compare with this run, question by question.")
    ] = None,
    fail_under: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE: exit 1 below it; also task=math/correct=0.5; repeatable."),
    ] = None,
    judges: Annotated[
        str | None, typer.Option("--graders", help="Judges to set side by side, by comma.")
    ] = None,
    disagreements: Annotated[
        str | None, typer.Option(help="JSONL file: what the --graders differ on.")
    ] = None,
    plot: Plot = None,
    tsne: Annotated[
        int | None,
        typer.Option(min=5, help="Also map at most N trajectories a run by t-SNE of TF-IDF."),
    ] = None,
    embedder: Annotated[
        str | None, typer.Option(help="Folder of an embedding model for --tsne, in TF-IDF's place.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: Annotated[
        bool | None, typer.Option("--json/--table", help="Else a table on a terminal only.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of resampling and random swaps.")] = 0,
    on_error: OnError = "fail",
    quiet: Quiet = False,
) -> None:
    """Measure judged trajectories: accuracy, calls, tool productivity.

    In: judged trajectories. Out: one JSON object, a table on a terminal; each mean with its 95 %
    interval, clustered by question. conciseness needs judge.redundant (true or false), which
    tir judge --redundancy fills. --compare pairs questions by group: more or less accurate (MA,
    LA), more or less efficient (ME, LE), tie, and differences with interval, p-value and the
    smallest difference that such data would show. --graders judges again and writes nothing
    back; recorded is the verdict in the record.

    \b
    Examples:
      tir metrics judged.jsonl
      tir metrics judged.jsonl --by task --by made.model --fail-under correct.low=0.5 --json
      tir metrics after.jsonl --compare before.jsonl --fail-under compare/correct.low=-0.02
      tir metrics judged.jsonl --graders recorded,math --disagreements split.jsonl
      tir metrics after.jsonl --compare before.jsonl --plot runs.html --tsne 500
    """
    from tircli.stages import metrics as stage

    options = dict(locals())
    options.pop("stage")
    options["by"], options["fail_under"] = by or [], fail_under or []
    raise _guarded(lambda: stage.run(**options))


@app.command()
def sft(
    input: Input = "-",
    model: Annotated[str, typer.Option("--model", "-m", help="Model folder or hub name.")] = "",
    out: Annotated[str, typer.Option(help="Folder for weights: last, best, checkpoint-N.")] = "",
    eval: Annotated[
        str | None, typer.Option(help="JSONL of held-out trajectories: their loss, and best.")
    ] = None,
    filter: Annotated[
        str | None, typer.Option(help="rft: correct, well-formed, no failed execution.")
    ] = None,
    per_question: Annotated[
        int | None, typer.Option(min=1, help="Trajectories of a question that rft keeps.")
    ] = None,
    size: Annotated[int | None, typer.Option(min=1, help="Trajectories that rft keeps.")] = None,
    by_reward: Annotated[
        bool, typer.Option("--by-reward", help="Of a question those of the highest reward.")
    ] = False,
    preset: Annotated[str | None, typer.Option(help="Settings by name (et) or .toml.")] = None,
    lr: Annotated[
        float | None, typer.Option(help="Peak learning rate; 5e-6, with --lora 1e-4.")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Trajectories an update; 32.")] = None,
    micro_batch: Annotated[
        int | None, typer.Option(help="Trajectories in one pass on a device; 4.")
    ] = None,
    epochs: Annotated[float | None, typer.Option(help="Passes over the data; 3.")] = None,
    schedule: Annotated[
        str | None, typer.Option(help="cosine (default), linear or constant.")
    ] = None,
    warmup: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Share of updates of rising rate; 0.1.")
    ] = None,
    weight_decay: Annotated[float | None, typer.Option(min=0.0, help="Of AdamW; 0.")] = None,
    clip: Annotated[
        float | None, typer.Option(min=0.0, help="Largest gradient norm; 1, 0 is none.")
    ] = None,
    lora: Annotated[
        int | None, typer.Option(min=1, help="Rank of an adapter; else all weights are trained.")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(min=1, help="Tokens a trajectory; else what the model holds.")
    ] = None,
    packing: Annotated[
        bool | None, typer.Option("--packing/--no-packing", help="A micro-batch in one row.")
    ] = None,
    checkpointing: Annotated[
        bool | None, typer.Option("--checkpointing", help="Less memory, more time.")
    ] = None,
    attention: Annotated[
        str | None, typer.Option(help="Attention of transformers, say flash_attention_2.")
    ] = None,
    train_on_results: Annotated[
        bool, typer.Option("--train-on-results", help="Also learn tool results (the paper's sum).")
    ] = False,
    train_on_hints: Annotated[
        bool, typer.Option("--train-on-hints", help="Also learn inserted hints.")
    ] = False,
    show_mask: Annotated[
        int, typer.Option(min=0, metavar="N", help="Show what of N records is trained; no more.")
    ] = 0,
    save_every: Annotated[
        int | None, typer.Option(min=1, help="Updates between checkpoints; else an epoch.")
    ] = None,
    eval_every: Annotated[
        int | None, typer.Option(min=1, help="Updates between evaluations; else an epoch.")
    ] = None,
    keep: Annotated[int, typer.Option(min=1, help="Checkpoints kept.")] = 1,
    report_to: Annotated[
        list[str] | None, typer.Option(help="tensorboard, wandb or trackio; repeatable.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the run.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint.")
    ] = False,
    on_error: OnError = "fail",
    quiet: Quiet = False,
) -> None:
    """Train a model on trajectories: on what it wrote, not on what tools said.

    In: trajectories. Out: one line of metrics an update (step, epoch, tokens, loss, lr, grad_norm)
    and a last one that sums up; model folders last and best under --out. Several processes:
    accelerate launch -m tircli.cli sft ...

    \b
    Examples:
      tir sft judged.jsonl -m ./model --out run --filter rft --per-question 4 --preset et
      tir sft t.jsonl -m ./model --out run --lora 16 --eval held_out.jsonl
      tir sft t.jsonl -m ./model --show-mask 3
    """
    from tircli.stages import sft as stage

    options = dict(locals()) | {"report_to": report_to or []}
    options.pop("stage")
    raise _guarded(lambda: stage.run(**options))


@app.command("exec")
def exec_(
    input: Annotated[
        str, typer.Argument(metavar="[FILE]", help="A program, or a .jsonl of them; - is stdin.")
    ] = "-",
    code: Annotated[str | None, typer.Option("-c", help="The program itself.")] = None,
    lines: Annotated[bool, typer.Option("--jsonl", help="FILE holds records, one a line.")] = False,
    protocol: Annotated[
        str | None, typer.Option(help="Show output as this protocol does: a name or a .toml.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="Wall seconds a program.")] = 10.0,
    cpu_seconds: Annotated[float, typer.Option(min=0.1, help="CPU seconds a program.")] = 5.0,
    memory_mb: Annotated[int, typer.Option(min=16, help="MB a program may take.")] = 1024,
    output_kb: Annotated[int, typer.Option(min=1, help="KB kept of each output stream.")] = 64,
    slots: Annotated[
        int | None, typer.Option(min=1, help="Programs at once; else one a core.")
    ] = None,
    scratch_mb: Annotated[
        int, typer.Option(min=0, help="MB of a folder to write to, empty in every program.")
    ] = 0,
    sandbox: SandboxLayers = "preferred",
    sandbox_url: SandboxUrl = None,
    sandbox_import: SandboxImport = "",
    on_error: OnError = "fail",
) -> None:
    """Run python programs in the sandbox that the model's code runs in.

    In: one program, or a JSONL of id and code. Out: one record a program: status, output (what a
    model would see), stdout, stderr, value, exception, times, memory, layers.

    \b
    Examples:
      tir exec -c 'print(6 * 7)'
      tir exec solution.py --protocol torl --seconds 3
      tir exec programs.jsonl --slots 2 --sandbox required=ns,landlock,seccomp
    """
    from tircli.stages import exec as stage

    options = dict(locals())
    options.pop("stage")
    raise _guarded(lambda: stage.run(**options))


@app.command()
def index(
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help=".jsonl, .tsv or .parquet.")],
    output: Annotated[str, typer.Option("--output", "-o", help="Folder of the index.")],
    backend: Annotated[str, typer.Option(help="bm25, lucene (needs Java) or dense.")] = "bm25",
    model: Annotated[str, typer.Option("--model", "-m", help="dense: folder of an encoder.")] = "",
    query_prefix: Annotated[
        str | None, typer.Option(help="dense: before a query; else as the model says.")
    ] = None,
    passage_prefix: Annotated[
        str | None, typer.Option(help="dense: before a passage; else as the model says.")
    ] = None,
    pooling: Annotated[
        str | None, typer.Option(help="dense: mean or cls; else as the model says.")
    ] = None,
    hnsw: Annotated[bool, typer.Option("--hnsw", help="dense: faster, not exact.")] = False,
    overwrite: Overwrite = False,
    resume: Resume = False,
    quiet: Quiet = False,
) -> None:
    """Build a search index from a corpus of passages.

    In: passages, {"id", "contents"} or {"id", "title", "text"} a line. Out: a folder that
    --corpus names; it appears whole or not at all.

    \b
    Examples:
      tir index corpus.jsonl -o idx/
      tir index wiki-18.jsonl -o idx/ --backend lucene
      tir index corpus.jsonl -o idx/ --backend dense -m ./e5-base-v2 --hnsw
    """
    from tircli.stages import index as stage

    options = dict(locals())
    options.pop("stage")
    raise _guarded(lambda: stage.run(**options))


@app.command()
def serve(
    corpus: Corpus = "",
    search_backend: SearchBackend = "",
    search_url: SearchUrl = "",
    search_model: SearchModel = "",
    search_cache: SearchCache = "",
    topk: Annotated[int, typer.Option(min=1, help="Passages where a request names none.")] = 3,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 is all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, help="Port; 0 takes a free one.")] = 8000,
    quiet: Quiet = False,
) -> None:
    """Serve search over HTTP, in the protocols of Search-R1 and of ET-Agent.

    POST /retrieve {queries, topk, return_scores}; POST /search and /batch_search {query, top_n,
    return_score}; GET /health. There is no password: open it to a trusted network alone.

    \b
    Examples:
      tir serve --corpus idx/ --port 8000
      tir serve --search-backend serper --search-cache web.sqlite
    """
    from tircli.stages import serve as stage

    options = dict(locals())
    options.pop("stage")
    raise _guarded(lambda: stage.run(**options))


@app.command()
def doctor() -> None:
    """Show what works on this machine, and what to install for the rest.

    In: nothing. Out: a table.

    \b
    Examples:
      tir doctor
    """
    from tircli.stages import doctor as stage

    raise _guarded(stage.run)


def _guarded(run: Callable[[], int]) -> typer.Exit:
    """The exit with the code of `run`; every expected failure is one line on stderr."""
    from tircli.records import EngineError, InputError

    try:
        return typer.Exit(run())
    except (InputError, EngineError) as error:
        sys.stderr.write(f"{error}\n")
        return typer.Exit(2)
    except BrokenPipeError:
        return typer.Exit(141)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; go on with --resume\n")
        return typer.Exit(130)


def main() -> None:
    """Run `tir` and leave with its exit code; wrong usage is one line on stderr."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does: 130
    try:
        code = app(standalone_mode=False)
    except typer.Abort:
        code = 130
    except Exception as error:
        # typer carries click inside or beside it, by version: its usage errors know themselves.
        if not hasattr(error, "format_message"):
            raise
        sys.stderr.write(f"{error.format_message()}; see tir --help\n")
        code = 2
    sys.exit(code or 0)


if __name__ == "__main__":
    main()
