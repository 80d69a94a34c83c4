"""The paths of the service, and how they are described to programs (OpenAPI)."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from importlib.resources import files as package_files
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from .. import __version__
from .asked import AskedQuery, said_of_query
from .decoding import decoder_of
from .guard import FAILED, Guard, as_json
from .limits import RefusedRequestError
from .schema import described_for
from .service import Service, Wanted

PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/docs": ("docs.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/charts.js": ("charts.js", "text/javascript; charset=utf-8"),
    "/inputs.js": ("inputs.js", "text/javascript; charset=utf-8"),
    "/docs.js": ("docs.js", "text/javascript; charset=utf-8"),
}
"""All files that are served: a path is looked up here, and never on the disk."""


class ScoredRows(BaseModel):
    """The answer: a list each, in the order of the rows."""

    score: list[float | None] = Field(
        description="Higher is more like the data; null: the model has no number for it."
    )
    p_value: list[float] = Field(description="Share of normal rows that score as low.")
    outlier: list[bool]
    false_alarm_rate: float
    threshold: float
    warnings: list[str]
    why: list[Any] | None = Field(
        None, description="Of a row, columns with what they cost; of an image, heat by pixel."
    )
    nearest: list[Any] | None = None


class RefusedAnswer(BaseModel):
    """What is wrong, and what to do."""

    error: str


def application(service: Service, token: str | None = None) -> ASGIApp:
    """The whole of it, behind its guard."""
    app = FastAPI(
        title="uspebm",
        version=__version__,
        description="Scores, p-values and verdicts of one model.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    _explain_errors(app)
    _add_score(app, service)
    _add_questions(app, service)
    _add_page(app)
    return Guard(app, service, token)


def _add_score(app: FastAPI, service: Service) -> None:
    answers: dict[int | str, dict[str, Any]] = {200: {"model": ScoredRows}}
    for code in (400, 401, 403, 408, 413, 415, 421, 422, 500, 501, 503, 504):
        answers[code] = {"model": RefusedAnswer}

    @app.post(
        "/score",
        responses=answers,
        summary="Score rows or images",
    )
    async def score(request: Request, asked: Annotated[AskedQuery, Query()]) -> Response:
        kind = request.headers.get("content-type", "")
        decoder_of(kind)  # before the body is read
        held = 0
        try:
            body = bytearray()
            async for part in _parts(request, service.limits.body, service.limits.arriving):
                service.hold(len(part))
                held += len(part)
                body += part
            wanted = Wanted(asked.false_alarm_rate, asked.why, asked.nearest)
            return _json(await service.answer(kind, bytes(body), wanted))
        finally:
            service.hold(-held)


async def _parts(request: Request, most: int, seconds: float) -> AsyncIterator[bytes]:
    """A body as it comes, as long as it is not too much and not too slow."""
    too_much = RefusedRequestError(
        413, f"the body is larger than {most:,} bytes: send less at once"
    )
    said = request.headers.get("content-length", "0")
    if said.isdigit() and int(said) > most:
        raise too_much
    count, stream = 0, aiter(request.stream())
    try:
        async with asyncio.timeout(seconds):
            async for part in stream:
                count += len(part)
                if count > most:
                    raise too_much
                yield part
    except TimeoutError:
        raise RefusedRequestError(
            408, f"the body was not there after {seconds:g} seconds: send it faster, or in parts"
        ) from None


def _add_questions(app: FastAPI, service: Service) -> None:
    @app.get("/info", summary="What the model is, and what it takes")
    async def info() -> Response:
        limits = service.limits
        return _json(
            service.model.info
            | {"limits": {name: getattr(limits, name) for name in ("body", "rows", "explained")}}
        )

    @app.get("/health", summary="Whether it is there")
    async def health() -> Response:
        return _json({"status": "ok"})

    @app.get("/metrics", summary="Counts for Prometheus", response_class=Response)
    async def metrics() -> Response:
        text = service.metrics.text(service.drift)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return _json(described_for(service.model, service.limits, app.openapi()))


def _add_page(app: FastAPI) -> None:
    folder = package_files("uspebm") / "serve" / "page"
    for path, (name, kind) in PAGE.items():
        content = (folder / name).read_bytes()
        app.add_route(path, partial(_file, content, kind))


async def _file(content: bytes, kind: str, _: Request) -> Response:
    return Response(content, media_type=kind)


def _explain_errors(app: FastAPI) -> None:
    """Every refusal as one line of JSON."""

    @app.exception_handler(RefusedRequestError)
    async def refused(_: Request, error: RefusedRequestError) -> Response:
        return _json({"error": str(error)}, error.status, error.headers)

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> Response:
        return _json({"error": FAILED}, 500)  # what went wrong is the guard's to say

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return _json({"error": said_of_query(error.errors()[0])}, 422)

    @app.exception_handler(HTTPException)
    async def elsewhere(_: Request, error: HTTPException) -> Response:
        what = {404: "there is nothing at this path", 405: "this path takes another method"}
        text = what.get(error.status_code, str(error.detail))
        headers = dict(error.headers or {})
        return _json({"error": f"{text}: /docs tells what there is"}, error.status_code, headers)


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(as_json(value), status, headers, "application/json")
