"""A small OpenAI-compatible server that fails on purpose: `python openai_server.py --help`.

Its model is a function of the prompt and the seed: it calls python once, then answers the seed.
It prints its URL, and with --log it writes a line for each request that it answered.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from pathlib import Path

FAULTS = ("429", "500", "reset", "hang", "half", "empty", "count", "slow", "garbage")


class Server:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.random = random.Random(options.fault_seed)
        self.tokenizer = None
        if options.tokenizer:
            from tokenizers import Tokenizer

            self.tokenizer = Tokenizer.from_file(str(Path(options.tokenizer) / "tokenizer.json"))
        self.log = open(options.log, "a") if options.log else None  # noqa: SIM115
        self.writers: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().split("\r\n")
                method, path, _ = lines[0].split(" ")
                headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                await self.answer(method, path, headers, body, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.writers.discard(writer)
            writer.close()

    async def answer(self, method, path, headers, body, writer) -> None:
        options = self.options
        if options.key and headers.get("authorization") != f"bearer {options.key}".lower():
            told = {"error": {"message": f"bad key {headers.get('authorization')}"}}
            return self.send(writer, 401, told)
        if path == "/v1/models":
            entry = {"id": "tiny", "max_model_len": options.context}
            return self.send(writer, 200, {"data": [entry]})
        if method != "POST" or path not in ("/v1/completions", "/v1/chat/completions"):
            return self.send(writer, 404, {"error": {"message": "no such path"}})
        request = json.loads(body)
        if options.strict and set(request) & {"return_token_ids", "include_stop_str_in_output"}:
            told = {"error": {"message": "unknown parameter", "code": "bad_request"}}
            return self.send(writer, 400, told)
        if isinstance(request.get("prompt"), list) and not self.tokenizer:
            return self.send(writer, 400, {"error": {"message": "the prompt is no text"}})
        await asyncio.sleep(options.seconds)
        probe = request["max_tokens"] == 2
        fault = None
        if not probe and self.random.random() < options.faults * len(FAULTS):
            fault = self.random.choice(FAULTS)
        if fault is not None:
            return await self.fail(fault, request, writer)
        reply = self.reply(request, "messages" in request)
        if self.log and not probe:  # Before the reply: whoever has it may look at once.
            line = {"seed": request["seed"], "prompt": request["prompt"]}
            self.log.write(json.dumps(line) + "\n")
            self.log.flush()
        self.send(writer, 200, reply)

    async def fail(self, fault, request, writer) -> None:
        reply = self.reply(request, "messages" in request)
        if fault == "429":
            self.send(writer, 429, {"error": {"message": "busy"}}, "Retry-After: 0.02\r\n")
        elif fault == "500":
            self.send(writer, 500, {"error": {"message": "internal"}})
        elif fault == "reset":
            writer.transport.abort()
        elif fault == "hang":
            await asyncio.sleep(60)
        elif fault == "half":
            self.send(writer, 200, json.dumps(reply).encode()[:-20])
        elif fault == "empty":
            self.send(writer, 200, reply | {"choices": []})
        elif fault == "count":
            reply["choices"][0]["token_ids"] = [1]
            self.send(writer, 200, reply | {"usage": {}})
        elif fault == "garbage":
            self.send(writer, 200, b'{"choices": [{"text": "\xff\xfe"}]}')
        else:
            data = json.dumps(reply).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data))
            for i in range(0, len(data), 8):
                if writer.is_closing():
                    return
                writer.write(data[i : i + 8])
                await asyncio.sleep(0.1)

    def send(self, writer, status, body, more="") -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\n{more}\r\n"
        writer.write(head.encode() + data)

    def reply(self, request, chat: bool):
        if chat:
            return self.chat_reply(request)
        prompt, ids_in = request["prompt"], isinstance(request["prompt"], list)
        text = self.tokenizer.decode(prompt) if ids_in else prompt
        said = f"The answer is \\boxed{{{request.get('seed')}}}."
        if not text.rstrip().endswith("```"):  # As an observation of protocol torl does.
            said = "Compute.\n```python\nprint(1)\n```\n```output\n1"
        kept, finish, told = said, "stop", None
        for stop in request.get("stop", ()):
            if stop in kept:
                kept, told = kept[: kept.index(stop)], stop
        with_stop = kept + (told or "")
        if told and request.get("include_stop_str_in_output"):
            kept = with_stop
        ids = self.tokenizer.encode(with_stop).ids if self.tokenizer else list(with_stop.encode())
        choice = {"text": kept, "finish_reason": finish, "stop_reason": told}
        if self.options.silent:
            del choice["stop_reason"]
        if self.tokenizer and request.get("return_token_ids"):
            choice["token_ids"] = ids
            if request.get("logprobs") is not None:
                tops = [{f"token_id:{i}": -0.25, "token_id:0": -0.5} for i in ids]
                choice["logprobs"] = {"token_logprobs": [-0.25] * len(ids), "top_logprobs": tops}
        return {"choices": [choice], "usage": {"completion_tokens": len(ids)}}

    def chat_reply(self, request):
        message = {"role": "assistant", "content": f"\\boxed{{{request['seed']}}}"}
        finish = "stop"
        if request["messages"][-1]["role"] != "tool" and request.get("tools"):
            arguments = '{"code": "print(1)"}' if not self.options.bad_json else '{"code": '
            function = {"name": "code_interpreter", "arguments": arguments}
            call = {"id": "c1", "type": "function", "function": function}
            message |= {
                "content": None,
                "tool_calls": [call],
                "reasoning_content": "I need python.",
            }
            finish = "tool_calls"
        for sent in request["messages"]:
            for call in sent.get("tool_calls", ()):
                json.loads(call["function"]["arguments"])  # As vLLM does: a bad one would be a 500.
        choice = {"message": message, "finish_reason": finish}
        return {"choices": [choice], "usage": {"completion_tokens": 7}}


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--faults", type=float, default=0.0, help="share of each kind of fault")
    parser.add_argument("--fault-seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0, help="latency of a reply")
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--tokenizer", help="folder; with it, ids are taken and returned")
    parser.add_argument("--strict", action="store_true", help="refuse what OpenAI does not know")
    parser.add_argument("--silent", action="store_true", help="do not tell the stop string")
    parser.add_argument("--bad-json", action="store_true", help="chat calls with torn arguments")
    parser.add_argument("--key", default="")
    parser.add_argument("--log")
    options = parser.parse_args()
    server = await asyncio.start_server(Server(options).serve, "127.0.0.1", options.port)
    port = server.sockets[0].getsockname()[1]
    sys.stdout.write(f"http://127.0.0.1:{port}/v1\n")
    sys.stdout.flush()
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
