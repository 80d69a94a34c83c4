"""Two processes on one run's folder."""

import random
import time

from .jobs import Child, content, working_folder
from .report import Row, say


def run(seed: int, tries: int) -> list[Row]:
    """Half of the time the second one has the same settings, half of the time others."""
    started, draws, held, refused = time.monotonic(), random.Random(seed), 0, 0
    with working_folder() as root:
        results = {}
        for job in ("train", "train another"):
            ended = Child(job, root, root / job).end()
            results[job] = content(root / job)
        for k in range(tries):
            place = root / str(k)
            jobs = ["train", ("train", "train another")[k % 2]]
            first = Child(jobs[0], root, place)
            first.process.join(draws.uniform(0.0, 0.8 * ended.seconds))
            second = Child(jobs[1], root, place)
            ends = [first.end(), second.end()]
            wrong = _wrong(jobs, [end.code for end in ends], [end.said for end in ends])
            winner = jobs[0] if ends[0].code == 0 else jobs[1]
            if content(place) != results[winner]:
                wrong.append("the run is not the undisturbed one")
            refused += any(end.code == 2 for end in ends)
            held += not wrong
            if wrong:
                say(f"two writers, try {k}: {'; '.join(wrong)}")
    note = f"{refused} refused in one line; the other's run is bit-equal"
    return [Row("two processes on one folder", tries, held, time.monotonic() - started, note)]


def _wrong(jobs: list[str], codes: list[int], said: list[str]) -> list[str]:
    if sorted(codes) == [0, 0] and jobs[0] == jobs[1]:
        return []  # the second found a finished run
    if sorted(codes) != [0, 2]:
        return [f"ended with {codes}: {said}"]
    text = said[codes.index(2)]
    told = ["is in use: another process trains there"]
    if jobs[0] != jobs[1]:
        told.append("holds a run with other settings")
    if text.count("\n") != 1 or not any(part in text for part in told):
        return [f"said {text!r}"]
    return []
