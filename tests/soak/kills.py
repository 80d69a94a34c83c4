"""Kills, at random moments of random jobs: nothing is half-written, and all is done in the end."""

import random
import time
from pathlib import Path

from .jobs import Child, content, faults, make_inputs, older, visible, working_folder
from .report import Row, say

SHARES = {
    "train": 0.25,
    "train a table": 0.15,
    "fit": 0.15,
    "fit images": 0.05,
    "score": 0.2,
    "export": 0.2,
}
MOST_IN_A_ROW = 4


def run(seed: int, kills: int) -> list[Row]:
    """``kills`` in all, over the jobs."""
    with working_folder() as root:
        inputs = make_inputs(root / "inputs")
        return [
            _killed(job, max(1, round(share * kills)), inputs, root / job, seed)
            for job, share in SHARES.items()
        ]


def _killed(job: str, kills: int, inputs: Path, root: Path, seed: int) -> Row:
    started, moments = time.monotonic(), random.Random(f"{job} {seed}")
    older(job, inputs, root / "undisturbed")
    before = content(root / "undisturbed")
    ended = Child(job, inputs, root / "undisturbed").end()
    if ended.code != 0:
        return Row(f"kill −9: {job}", kills, 0, ended.seconds, f"undisturbed: {ended.said}")
    after, done, tries, lost = content(root / "undisturbed"), 0, 0, 0
    while done < kills:
        tries += 1
        place = root / str(tries)
        older(job, inputs, place)
        hits, wrong = 0, []
        for _ in range(moments.randint(1, MOST_IN_A_ROW)):
            # Half of them at moments of the clock, half before an operation on files.
            if moments.random() < 0.5:
                child = Child(job, inputs, place)
                child.process.join(moments.uniform(0.0, ended.seconds))
                killed = child.kill()
            else:
                at = moments.randint(1, ended.operations)
                killed = Child(job, inputs, place, die_at=at).end()
            hits += killed.code == -9  # some end before their moment comes
            if killed.code not in (0, -9):
                wrong.append(f"ended with {killed.code}: {killed.said}")
            wrong += faults(job, place, before, after)
            if done + hits == kills:
                break
        last = Child(job, inputs, place).end()
        if last.code != 0:
            wrong.append(f"could not go on ({last.code}): {last.said}")
        elif (found := content(place)) != after:
            wrong.append(f"ends otherwise: {_differences(found, after)}")
        done += hits
        if wrong:
            lost += hits
            say(f"kill −9: {job}, run {tries}: {'; '.join(wrong)}")
        say(f"kill −9: {job}: {done} of {kills}, {lost} with faults")
    return Row(
        f"kill −9: {job}",
        kills,
        kills - lost,
        time.monotonic() - started,
        f"{tries} runs, each killed up to {MOST_IN_A_ROW} times, end bit-equal, without litter; "
        "nothing is ever half-written",
    )


def _differences(found: dict[str, str], wanted: dict[str, str]) -> str:
    names = sorted(found.keys() | wanted.keys())
    other = [name for name in names if found.get(name) != wanted.get(name)]
    hidden = [name for name in other if name not in visible(found | wanted)]
    return f"{', '.join(other)}; of these, left over: {', '.join(hidden) or 'none'}"
