"""More than it can do at once, or in time, is refused; what it does is not disturbed."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from torch import Tensor

from uspebm.serve.limits import Limits
from uspebm.serve.served_model import Judged, ServedModel

from .common import TABLE, npy, post, serving


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Scoring waits for this event."""
    go, judged = threading.Event(), ServedModel.judged

    def wait(self: ServedModel, points: Tensor) -> Judged:
        assert go.wait(20)
        return judged(self, points)

    monkeypatch.setattr(ServedModel, "judged", wait)
    yield go
    go.set()


def test_who_comes_while_all_is_busy_is_told_to_come_again(
    served: Path, held: threading.Event
) -> None:
    with serving(served / "named", Limits(requests=2)) as client, ThreadPoolExecutor(2) as pool:
        busy = [pool.submit(post, client, npy(TABLE[:1])) for _ in range(2)]
        while "uspebm_requests_at_work 2.0" not in client.get("/metrics").text:
            pass
        answer = post(client, npy(TABLE[:1]))
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert client.get("/health").status_code == 200
        held.set()
        assert [one.result().status_code for one in busy] == [200, 200]
        assert post(client, npy(TABLE[:1])).status_code == 200


def test_what_takes_too_long_is_given_up(served: Path, held: threading.Event) -> None:
    with serving(served / "named", Limits(answering=2.0)) as client:
        answer = post(client, npy(TABLE[:1]))
        assert answer.status_code == 504
        assert "more than 2 seconds" in answer.json()["error"]
        held.set()
        assert post(client, npy(TABLE[:1])).status_code == 200


def test_our_own_mistakes_show_nothing_of_the_request(
    served: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: ServedModel, points: Tensor) -> Judged:
        raise RuntimeError(f"secret {points}")

    with serving(served / "named") as client:
        with monkeypatch.context() as broken:
            broken.setattr(ServedModel, "judged", fail)
            answer = post(client, npy(TABLE[:1]))
        assert answer.status_code == 500
        assert "secret" not in answer.text + caplog.text
        assert "RuntimeError in fail:" in caplog.text
        assert post(client, npy(TABLE[:1])).status_code == 200
