"""A name server and an HTTPS server for one cell, on ports that its supervisor has bound already."""

from __future__ import annotations

import functools
import http.server
import os
import select
import socket
import ssl
import struct
import subprocess
import threading
from pathlib import Path
from typing import NoReturn

NAME = "server.example"
IPV4, IPV6 = bytes((127, 0, 0, 1)), bytes(15) + b"\1"


def answer(question: bytes) -> bytes:
    """The reply to a DNS question: NAME is loopback, every other name does not exist (RFC 1035)."""
    labels, at = [], 12
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode())
        at += 1 + question[at]
    kind = struct.unpack_from("!H", question, at + 1)[0]
    asked = question[12 : at + 5]
    known = ".".join(labels).lower() == NAME
    data = {1: IPV4, 28: IPV6}.get(kind, b"") if known else b""
    header = question[:2] + struct.pack("!HHHHH", 0x8180 if known else 0x8183, 1, bool(data), 0, 0)
    record = b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 60, len(data)) + data if data else b""
    return header + asked + record


def serve_names(datagrams: list[socket.socket], streams: list[socket.socket]) -> None:
    """Answer for ever, over UDP and TCP."""
    while True:
        for ready in select.select([*datagrams, *streams], [], [])[0]:
            try:
                if ready in datagrams:
                    data, sender = ready.recvfrom(4096)
                    ready.sendto(answer(data), sender)
                else:
                    connection = ready.accept()[0]
                    connection.setblocking(True)
                    length = struct.unpack("!H", connection.recv(2))[0]
                    reply = answer(connection.recv(length))
                    connection.sendall(struct.pack("!H", len(reply)) + reply)
                    connection.close()
            except (OSError, struct.error, IndexError):
                continue


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the test reads what the client says."""


def certificate(directory: str) -> tuple[str, str]:
    """A self-signed certificate for NAME and its key."""
    key, cert = os.path.join(directory, "key.pem"), os.path.join(directory, "cert.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME},IP:127.0.0.1", "-keyout", key, "-out", cert],
        check=True,
        capture_output=True,
    )  # fmt: skip
    Path(key).chmod(0o644)
    return key, cert


def serve(heard: dict[str, socket.socket], directory: str, www: str) -> NoReturn:
    """In a process of its own: names on 53, the files of `www` by HTTPS on 443."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(directory, "cert.pem"), os.path.join(directory, "key.pem"))
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Quiet, directory=www), bind_and_activate=False
    )
    server.socket.close()
    # Nobody answers on IPv6, so a client has to go on to the second address.
    heard["tcp443v6"].close()
    heard["tcp443"].setblocking(True)
    server.socket = context.wrap_socket(heard["tcp443"], server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    serve_names(
        [heard["udp53"], heard["udp53v6"]],
        [heard["tcp53"], heard["tcp53v6"]],
    )
    os._exit(0)
