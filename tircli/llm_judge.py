"""Judging by a language model: correctness and redundant calls, by votes (SPEC 2.4).

A reply that says nothing clear is asked for again; what then is not clear, or failed, is no
vote. Without votes there is no verdict: null, never 0.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from tircli import templates
from tircli.engines import Engine, Message, Sampling, ask
from tircli.judge import Verdict, no_gold
from tircli.records import InputError, Json, Trajectory, TurnError, stable_seed

Parse = Callable[[str, bool], "bool | None"]
"""`(reply, was it cut at its limit)` to a verdict, or None if it gives none."""


@dataclass(frozen=True, slots=True)
class Asking:
    """How the model is asked."""

    votes: int = 1
    redundancy_votes: int = 10  # SPEC 2.4
    tries: int = 2
    """How often in all one vote is asked for, while replies are unclear."""
    max_tokens: int = 1024
    seed: int = 0
    prompt: str = "correct"
    redundancy_prompt: str = "redundant"

    def changed(self) -> Json:
        """The settings that are not at their default."""
        usual = asdict(Asking())
        return {name: value for name, value in asdict(self).items() if value != usual[name]}


class LLMJudge:
    """Asks one model; it is built at the first question."""

    def __init__(self, make: Callable[[], Engine], asking: Asking, concurrency: int = 16) -> None:
        self.asking = asking
        self.counts = Counter(asked=0, asked_again=0, cut=0, unparsed=0, failed=0, tokens=0)
        """Votes asked for, requests repeated, replies cut at `max_tokens`, votes without result."""
        self._make = make
        self._engine: Engine | None = None
        self._correct = _prompt("--prompt", asking.prompt, "{{prediction}}")
        self._redundant = _prompt("--redundancy-prompt", asking.redundancy_prompt, "{{trajectory}}")
        self._concurrency = concurrency
        self._free: asyncio.Semaphore | None = None

    async def correct(self, trajectory: Trajectory) -> Verdict:
        """1 or 0 by the majority of votes; None where there is none, or no gold answer."""
        missing = no_gold(trajectory)
        if missing:
            return None, {"name": "llm", "why": missing}
        if not (trajectory.prediction or "").strip():
            return 0.0, {"name": "llm", "why": "no prediction"}
        votes, problem = await self._votes(
            trajectory, self._correct, trajectory.id, self.asking.votes, parse_correct
        )
        details: Json = {"name": "llm", "why": _why(votes, problem), "votes": votes}
        decided = None if votes["yes"] == votes["no"] else float(votes["yes"] > votes["no"])
        return decided, details

    async def redundant(self, trajectory: Trajectory) -> Json:
        """`redundant` (true iff more votes say yes than no; null without votes) and the votes.

        A trajectory without calls is not asked about.
        """
        if not trajectory.uses:
            return {"redundant": False}
        votes, problem = await self._votes(
            trajectory,
            self._redundant,
            f"{trajectory.id}#redundant",
            self.asking.redundancy_votes,
            parse_yes_no,
        )
        found = votes["yes"] > votes["no"] if votes["yes"] + votes["no"] else None
        tally: Json = dict(votes)
        return {"redundant": found, "redundancy": tally | ({"why": problem} if problem else {})}

    async def aclose(self) -> None:
        """Free the model, if one was built."""
        if self._engine is not None:
            await self._engine.aclose()

    async def _votes(
        self, trajectory: Trajectory, prompt: Json, key: str, n: int, parse: Parse
    ) -> tuple[dict[str, int], str | None]:
        """The tally of `n` votes, and what the first failed one died of."""
        if self._engine is None:
            self._engine = self._make()
            self._free = asyncio.Semaphore(self._concurrency)
        tally = {"yes": 0, "no": 0, "unparsed": 0, "failed": 0}
        chat = messages(prompt, trajectory)
        problem = None
        for vote in await asyncio.gather(
            *(self._vote(chat, key, number, n, parse) for number in range(n))
        ):
            if isinstance(vote, TurnError):
                problem = problem or str(vote)
                tally["failed"] += 1
            else:
                tally["unparsed" if vote is None else "yes" if vote else "no"] += 1
        return tally, problem

    async def _vote(
        self, chat: list[Message], key: str, number: int, n: int, parse: Parse
    ) -> bool | TurnError | None:
        assert self._engine is not None and self._free is not None
        for attempt in range(self.asking.tries):
            sampling = Sampling(
                max_tokens=self.asking.max_tokens,
                # One vote is the model's best guess; several, or another try, must differ. Ours.
                temperature=0.0 if n == 1 and attempt == 0 else 1.0,
                seed=stable_seed(self.asking.seed, key, number, attempt),
                key=key,
                turn=number * self.asking.tries + attempt,
            )
            self.counts["asked" if attempt == 0 else "asked_again"] += 1
            try:
                async with self._free:
                    reply = await ask(self._engine, chat, sampling)
            except TurnError as error:
                self.counts["failed"] += 1
                return error
            self.counts["tokens"] += reply.n_tokens
            cut = reply.finish == "length"
            self.counts["cut"] += cut
            verdict = parse(reply.text, cut)
            if verdict is not None:
                return verdict
        self.counts["unparsed"] += 1
        return None


def messages(prompt: Json, trajectory: Trajectory) -> list[Message]:
    """The chat that asks about `trajectory`; what it says cannot close the tags around it."""
    values = {
        "question": trajectory.question,
        "answer": "\n".join(trajectory.golds),
        "prediction": trajectory.prediction or "",
        "trajectory": "".join(s.text for s in trajectory.segments if s.role != "prompt"),
    }
    tags = re.compile(r"<(?=/?(?:question|reference|prediction|trajectory)>)")
    user = templates.fill(prompt["user"], **{k: tags.sub("&lt;", v) for k, v in values.items()})
    system = [{"role": "system", "content": prompt["system"]}] if "system" in prompt else []
    return [*system, {"role": "user", "content": user}]


def _prompt(option: str, name: str, shows: str) -> Json:
    """The prompt called `name`; its `user` text must show the model what it is asked about."""
    known = templates.names("judge")
    if name not in known and not (name.endswith(".toml") and Path(name).is_file()):
        choices = ", ".join(known)
        raise InputError(f'{option}: no "{name}"; choose one of {choices}, or name a .toml file')
    prompt = templates.load("judge", name)
    texts = [prompt.get("user", ""), prompt.get("system", "")]
    if not all(isinstance(text, str) for text in texts) or shows not in texts[0]:
        raise InputError(f'{option}: {name}: "user" must be a text with {shows}, "system" a text')
    return prompt


def _why(votes: dict[str, int], problem: str | None) -> str:
    if votes["yes"] + votes["no"] == 0:
        return f"no verdict: {problem or 'no reply was clear'}"
    text = f"{votes['yes']} of {votes['yes'] + votes['no']} votes say correct"
    return f"no verdict: {text}" if votes["yes"] == votes["no"] else text


_WORD = {"correct": True, "right": True, "true": True, "yes": True, "1": True}
_WORD |= {"incorrect": False, "wrong": False, "false": False, "no": False, "0": False}
_KEYED = re.compile(r"(?i)\bcorrect[\"']?\s*[:=]\s*[\"']?(\w+)[\"']?[.*]*\s*(?=[,}]|\Z)")
_SAID = re.compile(
    r"(?P<label>(?:the |my |final )*(?:verdict|judge?ment|grade|decision|conclusion)"
    r"\s*(?:is|:|=|-)\s*)?"
    r"(?:(?:so|thus|therefore|hence),? )?"
    r"(?:(?:it|this|that|the (?:\w+ ){0,2}(?:answer|prediction|response|result))(?: is|'s) )?"
    r"(?P<no>not )?(?P<word>correct|incorrect|right|wrong|true|false|yes|no)"
    r"(?:[,;(–—].*| (?:because|since|as) .*)?",
    re.I,
)


def parse_correct(reply: str, cut: bool = False) -> bool | None:
    """The verdict of a reply: the last line with a JSON `correct`, else what its sentences say.

    A labelled sentence ("Verdict: ...") outweighs others. A line or sentences that disagree say
    nothing, nor does an approval beside words of blame. Of a reply that was cut only JSON counts.
    """
    text = _thought_out(reply)
    for line in reversed(text.splitlines()):
        keyed = {_WORD.get(word.lower()) for word in _KEYED.findall(line)}
        if keyed:
            return keyed.pop() if len(keyed) == 1 else None
    if cut:
        return None
    labelled: set[bool] = set()
    plain: set[bool] = set()
    rest = ""
    for sentence in re.split(r"[.!?\n]+", re.sub(r"[*_`#>{}\[\]\"]+", "", text)):
        said = _SAID.fullmatch(" ".join(sentence.replace("isn't", "is not").split()))
        if said:
            verdict = _WORD[said["word"].lower()] != bool(said["no"])
            (labelled if said["label"] else plain).add(verdict)
        else:
            rest += sentence
    found = labelled or plain
    if found == {True} and not labelled and re.search(r"(?i)incorrect|wrong|not correct", rest):
        return None
    return found.pop() if len(found) == 1 else None


def parse_yes_no(reply: str, cut: bool = False) -> bool | None:
    """True for yes, False for no: the last `<answer>`, or a reply that is one bare word."""
    text = _thought_out(reply)
    tagged = re.findall(r"<answer>\W*(yes|no)\W*</answer>", text, re.I)
    bare = re.fullmatch(r"\W*(yes|no)\W*", text, re.I)
    word = tagged[-1] if tagged else bare[1] if bare and not cut else None
    return None if word is None else word.lower() == "yes"


def _thought_out(reply: str) -> str:
    """`reply` without its thinking; a thought that does not end leaves nothing."""
    _, _, text = reply.rpartition("</think>")
    return re.sub(r"<think>.*", "", text, flags=re.S)
