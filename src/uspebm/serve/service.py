"""What one request after another is answered by: the model of the moment, and those who work."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..support.words import said_count
from .batching import Batcher
from .decoding import decoded, is_quick
from .drift_watch import DriftWatch
from .limits import Limits, RefusedRequestError
from .metrics import Metrics
from .served_model import Judged, ServedModel

log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Wanted(NamedTuple):
    """What a request asks for beside scores."""

    false_alarm_rate: float | None = None
    why: int = 0
    nearest: int = 0


class Service:
    """A model that can be replaced while requests are answered.

    Arguments:
        model: A folder, or a name of the package's.
        limits: Of requests.
    """

    def __init__(self, model: Path | str, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._where = model
        self.model = ServedModel(model)
        self.metrics = Metrics(self.model)
        self.drift = DriftWatch(self.model)
        self._batcher = Batcher(self.metrics.batch.observe)
        self._readers = ThreadPoolExecutor(2, "reading")
        # Reasons may take long: they wait for each other, and scores do not wait for them.
        self._explaining = ThreadPoolExecutor(1, "explaining")
        self._held = 0

    def reload(self) -> None:
        """Read the model again; requests that came before are answered by the former one."""
        try:
            model = ServedModel(self._where)
            drift = DriftWatch(model)
        except Exception as error:  # whatever it is, the former one goes on
            self.metrics.reloads.labels("no").inc()
            log.warning("the model cannot be read again, and the former one stays: %s", error)
            return
        former, self.drift, self.model = self.drift, drift, model
        former.close()
        self.metrics.reloads.labels("yes").inc()
        log.info("the model was read again")

    def close(self) -> None:
        """Finish what was taken."""
        for pool in (self._readers, self._explaining):
            pool.shutdown()
        self._batcher.close()
        self.drift.close()

    def hold(self, size: int) -> None:
        """Count bytes that a request has brought, or has no longer; a refusal of too many."""
        if size > 0 and self._held + size > self.limits.bodies:
            raise RefusedRequestError(
                503, "too much is being read at the moment: try again", {"Retry-After": "1"}
            )
        self._held += size

    async def answer(self, kind: str, body: bytes, wanted: Wanted) -> dict[str, Any]:
        """Scores of what is in ``body``."""
        model = self.model
        limit = model.threshold(wanted.false_alarm_rate)
        if is_quick(kind, body):
            X, points = self._read(model, kind, body)
        else:
            X, points = await self._in(self._readers, lambda: self._read(model, kind, body))
        judged = await self._batcher.judged(model, points)
        outlier = judged.scores < limit
        self._count(judged, outlier)
        self.drift.offer(model, X)
        found: dict[str, Any] = {
            "score": [score if np.isfinite(score) else None for score in judged.scores.tolist()],
            "p_value": judged.p_values.tolist(),
            "outlier": outlier.tolist(),
            "false_alarm_rate": wanted.false_alarm_rate or model.own_rate(),
            "threshold": limit,
            "warnings": model.doubts(X),
        }
        found |= await self._reasons(model, X, points, wanted)
        if len(points) > self.limits.explained and (wanted.why or wanted.nearest):
            found["warnings"].append(
                "reasons and neighbours are given of the first "
                + said_count(self.limits.explained, model.of_images)
            )
        return found

    async def _reasons(
        self, model: ServedModel, X: NDArray[Any], points: Tensor, wanted: Wanted
    ) -> dict[str, Any]:
        """Of the first rows; None of the others, which would take too long."""
        some = self.limits.explained
        rest: list[Any] = [None] * max(len(points) - some, 0)
        found = {}
        if wanted.why:
            why = await self._in(self._explaining, lambda: model.why(X[:some], wanted.why))
            found["why"] = why + rest
        if wanted.nearest:
            near = await self._in(
                self._explaining, lambda: model.witnesses.nearest(points[:some], wanted.nearest)
            )
            found["nearest"] = near + rest
        return found

    def _read(self, model: ServedModel, kind: str, body: bytes) -> tuple[NDArray[Any], Tensor]:
        X = decoded(model, kind, body, self.limits)
        return X, model.points(X)

    def _count(self, judged: Judged, outlier: NDArray[np.bool_]) -> None:
        self.metrics.rows.inc(len(outlier))
        self.metrics.alarms.inc(int(outlier.sum()))
        self.metrics.scores.add(judged.scores)

    async def _in(self, pool: ThreadPoolExecutor, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(pool, work)
