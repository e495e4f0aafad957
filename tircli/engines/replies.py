"""What a reply of an OpenAI-compatible server says, and what a chat request repeats of it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec

from tircli.engines import Completion, Message, Sampling
from tircli.engines.http import Fault
from tircli.records import Json, Segment


def choice_of(reply: Any) -> Json:
    """The only choice of `reply`. Raises Fault."""
    try:
        choice = reply["choices"][0]
    except (KeyError, IndexError, TypeError):
        raise Fault("the reply has no choices") from None
    if not isinstance(choice, dict):
        raise Fault("the reply's choice is no object")
    return choice


def n_tokens_of(reply: Any) -> int:
    """How many tokens were sampled. Raises Fault."""
    usage = reply.get("usage")
    count = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if not isinstance(count, int) or count < 0:
        raise Fault("the reply does not count its tokens (usage)")
    return count


def ids_of(choice: Json) -> list[int] | None:
    """The sampled ids, where the server tells them."""
    ids = choice.get("token_ids")
    sound = isinstance(ids, list) and all(isinstance(i, int) and i >= 0 for i in ids)
    return ids if sound else None


def finish_of(choice: Json, stops: Sequence[str]) -> tuple[str, str | None]:
    """Why the turn ended, and by which stop string; (`stop`, None): the server does not tell."""
    finish = choice.get("finish_reason")
    if finish == "length":
        return "length", None
    if finish not in ("stop", "tool_calls", "function_call"):
        raise Fault(f"finish_reason is {finish!r}")
    if finish != "stop" or not stops:
        return "eos", None
    # vLLM and SGLang: the string, or the id of an end-of-text token.
    told = choice.get("stop_reason", choice.get("matched_stop"))
    if isinstance(told, str) and told in stops:
        return "stop", told
    return ("eos" if isinstance(told, int) else "stop"), None


def logprobs_of(given: Any, count: int) -> tuple[list[float] | None, list[list[float]] | None]:
    """`(sampled, best)` of a completions reply."""
    if not isinstance(given, dict):
        return None, None
    sampled, tops = given.get("token_logprobs"), given.get("top_logprobs")
    try:
        best = [sorted(map(float, top.values()), reverse=True)[:count] for top in tops or ()]
        return [float(value) for value in sampled or ()], best
    except (TypeError, ValueError, AttributeError):
        raise Fault("log-probabilities that are no numbers") from None


def _ends(tokens: Any, text: str) -> list[int] | None:
    """Where each of `tokens` ends in `text`; None if they do not make it up."""
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        return None
    return list(itertools.accumulate(map(len, tokens))) if "".join(tokens) == text else None


def from_text(reply: Any, sampling: Sampling) -> Completion:
    """The turn of a completions server without ids. Raises Fault."""
    choice = choice_of(reply)
    text = choice.get("text")
    if not isinstance(text, str):
        raise Fault("the reply has no text")
    given = choice.get("logprobs")
    sampled, tops = logprobs_of(given, sampling.top_logprobs)
    ends = _ends(given.get("tokens"), text) if isinstance(given, dict) else None
    finish, stop = finish_of(choice, sampling.stop)
    if not ends or len(sampled or ()) != len(ends):
        sampled = tops = ends = None
    return Completion(None, text, finish, stop, sampled, tops, ends, n_tokens_of(reply))


def from_chat(reply: Any) -> Completion:
    """The turn as text: reasoning as a thought, calls in the form that protocol `tools` reads."""
    choice = choice_of(reply)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise Fault("the reply has no message")
    content = message.get("content") or ""
    thought = message.get("reasoning_content") or message.get("reasoning") or ""
    calls = message.get("tool_calls") or []
    try:
        text = f"<think>\n{thought}\n</think>\n" * bool(thought) + content
        text += "".join(_call_text(call["function"]) for call in calls)
        kept = [
            {
                "id": str(call.get("id") or f"call_{i}"),
                "type": "function",
                "function": {
                    "name": call["function"]["name"],
                    "arguments": _sound(call["function"]["arguments"]),
                },
            }
            for i, call in enumerate(calls)
        ]
    except (KeyError, TypeError, AttributeError):
        raise Fault("the reply's message is not as the API says") from None
    finish, _ = finish_of(choice, ())
    given = (choice.get("logprobs") or {}).get("content") or []
    done = Completion(None, text, finish, n_tokens=n_tokens_of(reply))
    done.message = {"role": "assistant", "content": content} | (
        {"tool_calls": kept} if kept else {}
    )
    done.ends = _ends([entry.get("token") for entry in given], text)
    if done.ends:
        done.logprobs = [float(entry["logprob"]) for entry in given]
        done.top_logprobs = [
            sorted((float(top["logprob"]) for top in entry.get("top_logprobs") or ()), reverse=True)
            for entry in given
        ]
    return done


def _call_text(function: Json) -> str:
    arguments = function["arguments"]
    written = arguments if isinstance(arguments, str) else _encode(arguments)
    return f"<tool_call>\n{_encode({'name': function['name'], 'arguments': written})}\n</tool_call>"


def _sound(arguments: Any) -> str:
    """Arguments as servers accept them back: what is no JSON object is wrapped into one."""
    text = arguments if isinstance(arguments, str) else _encode(arguments)
    try:
        whole = isinstance(msgspec.json.decode(text), dict)
    except msgspec.DecodeError:
        whole = False
    return text if whole else _encode({"unparsed": text})


def messages_of(segments: Sequence[Segment]) -> list[Message]:
    """The chat that `segments` stand for."""
    messages: list[Message] = list(segments[0].extra["messages"])
    waiting: list[str] = []
    for segment in segments[1:]:
        if segment.role == "model" and segment.text:
            message = segment.extra.get("message")
            message = message or {"role": "assistant", "content": segment.text}
            messages.append(message)
            waiting = [call["id"] for call in message.get("tool_calls", ())]
        elif segment.role == "tool":
            identity = waiting.pop(0) if waiting else "call_0"
            messages.append({"role": "tool", "tool_call_id": identity, "content": segment.text})
        elif segment.role == "hint":
            messages.append({"role": "user", "content": segment.text})
    return messages


def functions_of(functions: Sequence[Json], allowed: bool) -> Json:
    """What a chat request says of the functions; not `allowed`: none may be called now."""
    keys = ("name", "description", "parameters")
    tools = [{"type": "function", "function": {k: f[k] for k in keys}} for f in functions]
    return {"tools": tools} | ({} if allowed else {"tool_choice": "none"})


def _encode(value: Any) -> str:
    return msgspec.json.encode(value).decode()
