"""A server with the protocol of OpenAI's chats, which says what it is told to say."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Script(list):
    """What to answer, one after the other; the last is repeated.

    A string is an answer, which is sent in pieces; a number is a status; bytes are sent as they
    are; None is silence; of a pair, the first is sent before silence.

    Attributes:
        requests: The bodies of the requests, and the keys that came with them.
    """

    def __init__(self, *answers):
        super().__init__(answers)
        self.requests = []
        self.keys = []


@contextmanager
def serving_llm(*answers):
    """Run a server; give its address, and its script."""
    script = Script(*answers)
    done = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            script.requests.append(json.loads(body))
            script.keys.append(self.headers["Authorization"])
            answer = script.pop(0) if len(script) > 1 else script[0]
            if answer is None:
                done.wait(5)
            elif isinstance(answer, tuple):
                self._send(200, "text/event-stream", answer[0])
                self.wfile.flush()
                done.wait(5)
            elif isinstance(answer, int):
                self._send(answer, "application/json", b'{"error": {"message": "no such model."}}')
            elif isinstance(answer, bytes):
                kind = "text/html" if answer.startswith(b"<") else "text/event-stream"
                self._send(200, kind, answer)
            else:
                self._send(200, "text/event-stream", events(answer))

        def _send(self, status, kind, content):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", script
    finally:
        done.set()
        server.shutdown()
        thread.join()
        server.server_close()


def events(text, finish_reason="stop"):
    """Write a text as a stream of pieces of three characters."""
    pieces = [text[i : i + 3] for i in range(0, len(text), 3)]
    choices = [{"index": 0, "delta": {"content": one}, "finish_reason": None} for one in pieces]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish_reason})
    chunks = [[one] for one in choices] + [[]]  # the last one has no choice, as where usage is told
    common = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    lines = [f"data: {json.dumps({**common, 'choices': one})}\n\n" for one in chunks]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()
