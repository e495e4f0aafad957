"""A backend that answers from a table: for tests and demos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tircli import jsonl
from tircli.records import RecordError
from tircli.tools.search.corpus import titled
from tircli.tools.search.searcher import Found, Hit


class Fake:
    """Finds the passages written for a query, and none for others.

    `faults` are raised first, one a batch; `asked` lists the batches.
    """

    name, digest = "fake", "fake"

    def __init__(
        self,
        answers: Mapping[str, Sequence[str]],
        faults: Sequence[Exception] = (),
        parallel: int = 1,
        batch: int = 64,
    ) -> None:
        self.parallel, self.batch = parallel, batch
        self.asked: list[list[str]] = []
        self._answers, self._faults = answers, list(faults)

    async def search(self, queries: list[str], k: int) -> list[Found]:
        """See Backend."""
        self.asked.append(queries)
        if self._faults:
            raise self._faults.pop(0)
        return [
            [Hit(titled(f"{query}/{i}", text)) for i, text in enumerate(self._answers[query][:k])]
            if query in self._answers
            else []
            for query in queries
        ]

    async def aclose(self) -> None:
        """Nothing to free."""


def read(path: str) -> Fake:
    """A Fake from lines of `{"query", "passages"}`. Raises InputError."""
    answers = {}
    for place, line in jsonl.lines(path):
        record = jsonl.decode(line, place)
        if not isinstance(record, dict) or not isinstance(record.get("passages"), list):
            raise RecordError(f'{place}: write {{"query": "...", "passages": ["...", ...]}}')
        answers[str(record.get("query"))] = [str(text) for text in record["passages"]]
    return Fake(answers)
