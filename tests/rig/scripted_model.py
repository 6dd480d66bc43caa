"""scripted_model: a stand-in for the Messages API that speaks from a script.

It answers ``POST /v1/messages`` (streaming or not) with the next scripted
assistant turn, so that a real coding-agent CLI can be driven through a known
sequence of tool calls with no model and no network.  Standard library only;
it listens on 127.0.0.1 and nowhere else.

A scenario is a dict:

    {"turns":  [turn, ...],              # the main conversation
     "agents": [{"match": "TEXT", "turns": [turn, ...]}, ...],
     "default": "done"}                  # said when a script runs out

A turn is one assistant message:

    {"text": "..."}                                   text, then end_turn
    {"text": "...", "tools": [{"name": "Bash", "input": {...}}, ...]}
    {"tools": [...], "delay": 1.5}                    wait first
    {"tools": [...], "until": event.wait}             wait until the test says so
    {"error": {"status": 529, "type": "overloaded_error", "message": "..."}}

``agents`` scripts are for subagents: a conversation whose FIRST user message
contains ``match`` is answered from that list.  A request without tools (title
generation, summaries, WebFetch's reader) is answered with ``side``, or with
the default.  A repeat of the same request (a client's retry) gets the same
turn again, except after a scripted error, when the script moves on.
"""

import hashlib
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def first_user_text(body):
    for m in body.get("messages", []):
        if m.get("role") == "user":
            c = m.get("content")
            if isinstance(c, str):
                return c
            return "\n".join(b.get("text", "") for b in c if b.get("type") == "text")
    return ""


class Script:
    """The scenario and how far each conversation has come."""

    def __init__(self, scenario):
        self.sc = scenario
        self.lock = threading.Lock()
        self.pos = {}  # conversation key -> next index
        self.seen = {}  # request hash -> turn
        self.n = 0
        self.requests = []  # every request as it came, for the test to look at

    def log(self, rec):
        self.requests.append(rec)

    def next_turn(self, body):
        """-> (conversation key, index, turn)"""
        if not body.get("tools"):
            return "side", 0, {"text": self.sc.get("side", self.sc.get("default", "done"))}
        text = first_user_text(body)
        key, turns = "main", self.sc.get("turns", [])
        for i, a in enumerate(self.sc.get("agents", [])):
            if a["match"] in text:
                key, turns = f"agent{i}", a["turns"]
                break
        h = hashlib.sha256(json.dumps([key, body.get("messages")], sort_keys=True).encode()).hexdigest()
        with self.lock:
            if h in self.seen:
                return (key,) + self.seen[h]
            i = self.pos.get(key, 0)
            self.pos[key] = i + 1
            turn = turns[i] if i < len(turns) else {"text": self.sc.get("default", "done")}
            if "error" not in turn:
                self.seen[h] = (i, turn)
            return key, i, turn


def fill(value, body):
    """Replace {{re:PATTERN}} in the strings of a tool input by the pattern's
    first group as last found in the conversation (a task id, a path...)."""
    if isinstance(value, dict):
        return {k: fill(v, body) for k, v in value.items()}
    if isinstance(value, list):
        return [fill(v, body) for v in value]
    if isinstance(value, str) and "{{re:" in value:
        text = json.dumps(body.get("messages"), ensure_ascii=False)

        def sub(m):
            hits = re.findall(m.group(1), text)
            return hits[-1] if hits else "NOT-FOUND"

        return re.sub(r"\{\{re:(.*?)\}\}", sub, value)
    return value


def blocks_of(key, i, turn, body):
    out = []
    if turn.get("text"):
        out.append({"type": "text", "text": turn["text"]})
    for n, t in enumerate(turn.get("tools", [])):
        out.append(
            {
                "type": "tool_use",
                "id": t.get("id") or f"toolu_{key}_{i:03d}_{n}",
                "name": t["name"],
                "input": fill(t.get("input", {}), body),
            }
        )
    return out or [{"type": "text", "text": ""}]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script = None

    def log_message(self, *a):
        pass

    def send_json(self, status, obj, extra=()):
        data = json.dumps(obj).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for k, v in extra:
            self.send_header(k, v)
        self.end_headers()
        self.wfile.write(data)

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self):
        self.script.log({"t": time.time(), "method": "GET", "path": self.path})
        self.send_json(404, {"type": "error", "error": {"type": "not_found_error", "message": "no such path"}})

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            body = {}
        s = self.script
        path = self.path.split("?")[0]
        rec = {
            "t": time.time(),
            "method": "POST",
            "path": self.path,
            "stream": body.get("stream"),
            "model": body.get("model"),
            "max_tokens": body.get("max_tokens"),
            "tools": [t.get("name") for t in body.get("tools") or []],
            "system": body.get("system"),
            "messages": body.get("messages"),
        }
        if path.endswith("/count_tokens"):
            s.log(rec)
            return self.send_json(200, {"input_tokens": 100})
        if not path.endswith("/messages"):
            s.log(rec)
            return self.send_json(404, {"type": "error", "error": {"type": "not_found_error", "message": path}})
        key, i, turn = s.next_turn(body)
        rec.update(conversation=key, turn=i)
        s.log(rec)
        if turn.get("delay"):
            time.sleep(turn["delay"])
        if turn.get("until"):
            turn["until"]()
        if "error" in turn:
            e = turn["error"]
            return self.send_json(
                e.get("status", 500),
                {
                    "type": "error",
                    "error": {"type": e.get("type", "api_error"), "message": e.get("message", "scripted error")},
                },
                [("x-should-retry", "true" if e.get("retry", True) else "false")],
            )
        blocks = blocks_of(key, i, turn, body)
        stop = turn.get("stop_reason") or ("tool_use" if turn.get("tools") else "end_turn")
        with s.lock:
            s.n += 1
            mid = f"msg_scripted_{s.n:06d}"
        msg = {
            "id": mid,
            "type": "message",
            "role": "assistant",
            "model": body.get("model") or "scripted",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {
                "input_tokens": 10,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": 1,
            },
        }
        if not body.get("stream"):
            msg.update(content=blocks, stop_reason=stop)
            msg["usage"]["output_tokens"] = 10
            return self.send_json(200, msg, [("request-id", "req_" + mid)])
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("request-id", "req_" + mid)
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True

        def ev(name, **kw):
            self.wfile.write(f"event: {name}\ndata: {json.dumps({'type': name, **kw})}\n\n".encode())
            self.wfile.flush()

        try:
            ev("message_start", message=msg)
            for n, b in enumerate(blocks):
                if b["type"] == "text":
                    ev("content_block_start", index=n, content_block={"type": "text", "text": ""})
                    ev("content_block_delta", index=n, delta={"type": "text_delta", "text": b["text"]})
                else:
                    ev("content_block_start", index=n, content_block={**b, "input": {}})
                    ev(
                        "content_block_delta",
                        index=n,
                        delta={"type": "input_json_delta", "partial_json": json.dumps(b["input"])},
                    )
                ev("content_block_stop", index=n)
            ev("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage={"output_tokens": 10})
            ev("message_stop")
        except (BrokenPipeError, ConnectionResetError):
            pass


class Server(ThreadingHTTPServer):
    """The server, on a socket of its own or on one that already listens (in another network namespace)."""

    daemon_threads = True

    def __init__(self, address, handler, listening=None):
        super().__init__(address, handler, bind_and_activate=listening is None)
        if listening is not None:
            self.socket.close()
            self.socket = listening
            self.server_address = listening.getsockname()

    def handle_error(self, request, client_address):
        pass  # a client that was killed in the middle of an answer is what many tests are about


def serve(scenario, port=0, listening=None):
    """Start the server on a thread.  -> (server, port); stop with server.shutdown().

    `listening`: a socket that already listens, in place of a port of 127.0.0.1.  `server.script(scenario)` starts
    another scenario on the same server.
    """
    h = type("ScriptedHandler", (Handler,), {"script": Script(scenario)})
    srv = Server(("127.0.0.1", port), h, listening)

    def script(scenario):
        h.script = Script(scenario)
        return h.script

    srv.script = script
    threading.Thread(target=srv.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return srv, srv.server_address[1]
