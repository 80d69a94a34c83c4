"""The service as a process: signals, and clients that mean no good or are only slow."""

import asyncio
import http.client
import json
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from uspebm import EnergyDetector, load, save_model
from uspebm.cli.main import main
from uspebm.serve.patience import GRACE
from uspebm.serve.run import _obey

from .common import FRAME, TABLE, TOKEN, npy
from .processes import IMPATIENT, Running, running

ARRIVING = 1.0
BODY = npy(TABLE[:2])
HEAD = (
    f"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-npy\r\n"
    f"Content-Length: {len(BODY)}\r\n\r\n"
).encode()


@pytest.fixture(scope="module")
def impatient(served: Path) -> Iterator[Running]:
    limits = json.dumps({"arriving": ARRIVING, "answering": 3.0, "body": 50_000})
    with running(served / "named", limits, program=IMPATIENT) as service:
        yield service


def asked(service: Running, path: str = "/health", body: bytes | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(*service.address, timeout=20)
    try:
        kind = {"Content-Type": "application/x-npy"}
        connection.request("GET" if body is None else "POST", path, body, kind)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def raw(service: Running, *parts: bytes) -> bytes:
    """What comes back for bytes as they are, until the service closes or all of it is there."""
    with socket.create_connection(service.address, timeout=20) as connection:
        for part in parts:
            connection.sendall(part)
        found = b""
        with suppress(ConnectionResetError):
            while more := connection.recv(65536):
                found += more
                head, _, body = found.partition(b"\r\n\r\n")
                length = head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
                if length.isdigit() and len(body) >= int(length):
                    break
        return found


def until_closed(connection: socket.socket) -> bytes:
    found = b""
    with connection, suppress(ConnectionResetError):
        while more := connection.recv(1000):
            found += more
    return found


def test_slow_clients_are_given_up_and_keep_nobody_waiting(impatient: Running) -> None:
    """One says nothing, one half a header, one half a body; others are answered meanwhile."""
    began = time.monotonic()
    slow = [socket.create_connection(impatient.address, timeout=20) for _ in range(3)]
    slow[1].sendall(HEAD[:20])
    slow[2].sendall(HEAD + BODY[:50])
    for _ in range(10):
        assert asked(impatient, "/score", BODY)[0] == 200
    assert time.monotonic() - began < ARRIVING + 2
    answers = [until_closed(connection) for connection in slow]
    assert answers[:2] == [b"", b""]
    assert answers[2].startswith(b"HTTP/1.1 408")
    assert b"send it faster" in answers[2]
    assert ARRIVING + GRACE - 1 < time.monotonic() - began < ARRIVING + GRACE + 5
    assert asked(impatient, "/score", BODY)[0] == 200


def test_endless_headers_end(impatient: Running) -> None:
    lines = [b"X-Filler: " + b"x" * 8000 + b"\r\n"] * 40
    try:
        answer = raw(impatient, HEAD[:30], *lines)
    except (BrokenPipeError, ConnectionResetError):
        answer = b"HTTP/1.1 431"
    assert answer.startswith(b"HTTP/1.1 431") or not answer
    assert asked(impatient)[0] == 200


def test_abandoned_requests_leave_nothing(impatient: Running) -> None:
    for _ in range(20):
        with socket.create_connection(impatient.address) as connection:
            connection.sendall(HEAD + BODY[:50])
        with socket.create_connection(impatient.address) as connection:
            connection.sendall(HEAD + BODY)  # and no look at the answer
    deadline = time.monotonic() + 10
    while True:
        text = asked(impatient, "/metrics")[1].decode()
        if "uspebm_requests_at_work 0.0" in text and 'status="499"} 20.0' in text:
            break
        assert time.monotonic() < deadline, text
    assert asked(impatient, "/score", BODY)[0] == 200


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\n\r\n", 421),
        (b"GET //page.js HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /../../../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /docs/../page.js HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET http://evil.example/info HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        (b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n", 400),
        (b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
         b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-npy\r\n"
         b"Content-Length: 99999999999\r\n\r\n", 413),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
         b"Upgrade: websocket\r\n\r\n", 200),
    ],
)  # fmt: skip
def test_what_is_no_proper_request(impatient: Running, request_: bytes, status: int) -> None:
    assert raw(impatient, request_).startswith(f"HTTP/1.1 {status} ".encode())
    assert asked(impatient)[0] == 200


def test_the_model_is_read_again_without_a_request_lost(served: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(served / "named", tmp_path / "model")
    first = load(folder).offset_
    with running(folder) as service:
        found: list[tuple[int, float]] = []
        stop = threading.Event()

        def ask() -> None:
            connection = http.client.HTTPConnection(*service.address, timeout=20)
            while not stop.is_set():
                connection.request("POST", "/score", BODY, {"Content-Type": "application/x-npy"})
                answer = connection.getresponse()
                found.append((answer.status, json.loads(answer.read()).get("threshold", 0.0)))
            connection.close()

        clients = [threading.Thread(target=ask) for _ in range(4)]
        for client in clients:
            client.start()
        save_model(EnergyDetector(random_state=1).fit(FRAME[:150]), folder)
        second = load(folder).offset_
        service.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not (found and found[-1][1] == second):
            time.sleep(0.05)
        # A damaged one is not taken.
        (folder / "weights.safetensors").write_bytes(b"damaged")
        service.process.send_signal(signal.SIGHUP)
        while b'uspebm_reloads_total{ok="no"} 1.0' not in asked(service, "/metrics")[1]:
            assert time.monotonic() < deadline
        stop.set()
        for client in clients:
            client.join()
    assert {status for status, _ in found} == {200}
    assert {threshold for _, threshold in found} == {first, second}
    assert first != second
    assert found[-1][1] == second


def test_who_asks_for_the_model_while_it_is_read_is_not_forgotten() -> None:
    begun: list[int] = []
    go_on = threading.Event()

    class Slow:
        def reload(self) -> None:
            begun.append(len(begun))
            go_on.wait(20)

    async def three_signals() -> None:
        obeying = asyncio.ensure_future(_obey(object(), Slow()))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGHUP)
        while not begun:
            await asyncio.sleep(0.01)
        for _ in range(2):  # of what both wrote, one reading tells
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0.01)
        go_on.set()
        while len(begun) < 2:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        obeying.cancel()

    asyncio.run(asyncio.wait_for(three_signals(), 20))
    assert begun == [0, 1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_what_it_took_is_answered(served: Path, number: signal.Signals) -> None:
    with running(served / "named") as service:
        with socket.create_connection(service.address, timeout=20) as connection:
            connection.sendall(HEAD + BODY[:50])
            time.sleep(0.3)
            service.process.send_signal(number)
            time.sleep(0.5)
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(service.address, timeout=5)
            connection.sendall(BODY[50:])
            answer = connection.recv(10_000)
            assert answer.startswith(b"HTTP/1.1 200")
        assert service.process.wait(20) == 0
        log = service.process.rest().stderr
    assert "Traceback" not in log


def test_what_cannot_be_served_is_said_in_one_line(
    served: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refused(*flags: object) -> str:
        assert main(["serve", *map(str, flags)]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    model, empty = served / "named", tmp_path / "token"
    assert "--host 0.0.0.0 can be reached by others" in refused(model, "--host", "0.0.0.0")
    empty.write_text("\n")
    assert "is empty" in refused(model, "--token-file", empty)
    assert "No such file" in refused(model, "--token-file", tmp_path / "none")
    assert "no model's folder" in refused(tmp_path / "none", "--port", "0")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"cannot listen on 127.0.0.1, port {port}" in refused(model, "--port", port)
    monkeypatch.setenv("USPEBM_TOKEN", "short")
    assert "at least 16 characters" in refused(model)


def test_others_are_served_with_a_token(served: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    flags = ("--host", "0.0.0.0", "--token-file", str(tmp_path / "token"))
    with running(served / "named", *flags) as service:
        where = f"Host: {socket.gethostname()}\r\nConnection: close\r\n"
        ask = f"GET /info HTTP/1.1\r\n{where}"
        assert raw(service, f"{ask}\r\n".encode()).startswith(b"HTTP/1.1 401")
        right = f"{ask}Authorization: Bearer {TOKEN}\r\n\r\n"
        assert raw(service, right.encode()).startswith(b"HTTP/1.1 200")
