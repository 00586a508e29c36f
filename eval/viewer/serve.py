"""Serves one page to this machine alone."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from summarization.resolve import UserError

HOST = "127.0.0.1"


def server(page: bytes, port: int = 0) -> ThreadingHTTPServer:
    """A server of ``page``; 0 takes a free port.

    Raises:
        UserError: The port is taken.
    """

    class Handler(BaseHTTPRequestHandler):
        """Answers with the page, and with nothing else."""

        def do_GET(self) -> None:
            """The page, to whoever asks for this machine by its own name: a name elsewhere that was made to point
            here, as a hostile site would, is refused."""
            name = self.headers.get("Host", "").partition(":")[0]
            if name not in (HOST, "localhost"):
                self.send_error(421, "Misdirected Request")
            elif self.path.partition("?")[0] != "/":
                self.send_error(404)
            else:
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(page)))
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                self.wfile.write(page)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: the console belongs to the command."""

    try:
        return ThreadingHTTPServer((HOST, port), Handler)
    except (OSError, OverflowError) as error:
        raise UserError(
            f"--port is {port}: it cannot be listened on ({error}); name another, or 0 for a free one"
        ) from error
