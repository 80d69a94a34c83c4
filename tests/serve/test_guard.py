"""Who may ask, by which name, for which paths."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from .common import TABLE, TOKEN, npy, post, serving


@pytest.fixture
def locked(served: Path) -> Iterator[TestClient]:
    with serving(served / "named", token=TOKEN) as client:
        yield client


@pytest.mark.parametrize("path", ["/info", "/metrics", "/openapi.json", "/score", "/nothing"])
@pytest.mark.parametrize(
    "given", [None, "", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer ", "Bearer \xe4"]
)
def test_without_the_token_nothing_is_told(
    locked: TestClient, path: str, given: str | None
) -> None:
    headers = {} if given is None else {"authorization": given.encode("latin-1")}
    answer = locked.get(path, headers=headers)  # type: ignore[arg-type]
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "Authorization: Bearer TOKEN" in answer.json()["error"]


def test_with_the_token_all_is(locked: TestClient) -> None:
    locked.headers["authorization"] = f"Bearer {TOKEN}"
    assert post(locked, npy(TABLE[:2])).status_code == 200
    assert all(locked.get(path).status_code == 200 for path in ("/info", "/metrics"))
    assert locked.get("/info", headers={"host": "models.example:8000"}).status_code == 200


def test_the_page_and_health_need_none(locked: TestClient) -> None:
    for path in ("/", "/docs", "/page.css", "/page.js", "/health"):
        assert locked.get(path).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8000", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:1", 200),
        ("127.8.8.8", 200),
        ("[::1]:8000", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("evil.example@localhost:x]", 421),
        ("[::1", 421),
        ("0.0.0.0", 421),
        ("", 421),
    ],
)
def test_names_that_point_here_are_refused(table: TestClient, host: str, status: int) -> None:
    assert table.get("/info", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost", 200),
        ("http://localhost:81", 403),
        ("https://evil.example", 403),
        ("null", 403),
        ("http://[", 403),
        ("", 403),
    ],
)
def test_pages_of_other_sites_may_not_ask(table: TestClient, origin: str, status: int) -> None:
    headers = {"origin": origin, "content-type": "application/x-npy"}
    answer = table.post("/score", content=npy(TABLE[:1]), headers=headers)
    assert answer.status_code == status
    assert "access-control-allow-origin" not in answer.headers
    assert status == 200 or answer.json()["error"] == "pages of other sites may not ask"


def test_no_name_is_not_the_same_as_no_name(locked: TestClient) -> None:
    """A page that hides where it is from, and a request that names no host."""
    headers = {"authorization": f"Bearer {TOKEN}", "host": "", "origin": "null"}
    assert locked.get("/info", headers=headers).status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "/../pyproject.toml",
        "/..%2f..%2fetc/passwd",
        "/page.js/",
        "/page.js%00.html",
        "/index.html",
        "/docs.html",
        "/.git/config",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/score/",
        "/INFO",
    ],
)
def test_no_path_leads_elsewhere(table: TestClient, path: str) -> None:
    answer = table.get(path, follow_redirects=False)
    assert answer.status_code == 404
    assert answer.json()["error"].startswith("there is nothing at this path")


def test_methods(table: TestClient) -> None:
    for method, path in (("GET", "/score"), ("POST", "/info"), ("DELETE", "/"), ("OPTIONS", "/")):
        answer = table.request(method, path)
        assert answer.status_code == 405, (method, path)
        assert "error" in answer.json()


def test_every_answer_has_the_headers(locked: TestClient, table: TestClient) -> None:
    for answer in (
        table.get("/"),
        table.get("/info"),
        table.get("/nothing"),
        table.get("/info", headers={"host": "evil.example"}),
        locked.get("/info"),
        post(table, b"x"),
    ):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers


def test_metrics_have_few_paths(table: TestClient) -> None:
    """A thousand wrong paths are one line of the metrics."""
    for k in range(20):
        table.get(f"/wrong{k}")
    text = table.get("/metrics").text
    assert 'uspebm_requests_total{path="other",status="404"} 20.0' in text
    assert "wrong" not in text
