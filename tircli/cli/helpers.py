"""The commands around the stages: exec, index, serve and doctor."""

from __future__ import annotations

from typing import Annotated

import typer

from tircli.cli.options import (
    Corpus,
    OnError,
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
    """Run python programs in the sandbox of the python tool.

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
    raise guarded(lambda: stage.run(**options))


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
    raise guarded(lambda: stage.run(**options))


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
    """Serve search over HTTP, as Search-R1 and ET-Agent do.

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
    raise guarded(lambda: stage.run(**options))


def doctor() -> None:
    """Show what works on this machine and what to install.

    In: nothing. Out: a table.

    \b
    Examples:
      tir doctor
    """
    from tircli.stages import doctor as stage

    raise guarded(stage.run)
