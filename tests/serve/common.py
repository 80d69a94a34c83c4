"""Models to serve, and clients that ask."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from starlette.testclient import TestClient

from uspebm import EnergyDetector, save_model
from uspebm.serve.app import application
from uspebm.serve.limits import Limits
from uspebm.serve.service import Service

DRAWS = np.random.default_rng(0)
TABLE = DRAWS.normal(size=(200, 3)) * [1.0, 1e4, 1e-3]
FRAME = pd.DataFrame(TABLE, columns=["a", "b, c", "<b>d</b>"])
WITH_GAPS = FRAME.mask(DRAWS.random(FRAME.shape) < 0.05)
MIXED = pd.DataFrame(
    {
        "size": DRAWS.normal(size=200),
        "colour": DRAWS.choice(["red", "green", "blue"], 200),
        "on": DRAWS.random(200) < 0.5,
        "when": pd.Timestamp("2024-05-01")
        + pd.to_timedelta(DRAWS.integers(0, 1_000_000, 200), "s"),
    }
)
SHADES = np.clip(DRAWS.normal(128, 20, (120, 1, 1)) + DRAWS.normal(0, 9, (120, 8, 6)), 0, 255)
PIXELS = SHADES.astype(np.uint8)
COLOURS = DRAWS.integers(0, 256, (120, 5, 5, 3), dtype=np.uint8)
DATA: dict[str, Any] = {
    "nameless": TABLE,
    "named": FRAME,
    "gaps": WITH_GAPS,
    "mixed": MIXED,
    "pixels": PIXELS,
    "colour": COLOURS,
    "floats": PIXELS / 255.0,
}
URL = "http://localhost"
TOKEN = "0123456789abcdef-token"


def write_models(folder: Path) -> None:
    for name, data in DATA.items():
        save_model(EnergyDetector(random_state=0).fit(data), folder / name, title=f"Of {name}")


@contextmanager
def serving(
    model: Path, limits: Limits | None = None, token: str | None = None
) -> Iterator[TestClient]:
    service = Service(model, limits)
    try:
        yield TestClient(application(service, token), base_url=URL)
    finally:
        service.close()


def npy(array: NDArray[Any]) -> bytes:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    return content.getvalue()


def post(client: TestClient, body: bytes, kind: str = "application/x-npy", ask: str = "") -> Any:
    return client.post(f"/score{ask}", content=body, headers={"content-type": kind})
