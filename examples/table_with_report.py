"""A table with text and gaps: a model, scores with reasons, and a page on it all.

python examples/table_with_report.py
"""

import csv
from pathlib import Path

import numpy as np

from uspebm.cli.main import main as uspebm

HEADER = ("id", "machine", "speed", "power")


def write(path: Path, n: int, seed: int, fault: bool = False) -> None:
    """Power follows speed, by a factor of the machine's; a faulty one takes twice as much."""
    draws = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(HEADER)
        for k in range(n):
            machine = draws.choice(["press", "lathe"])
            speed = draws.uniform(1, 3)
            power = speed * (2 if machine == "press" else 5) * draws.normal(1, 0.02)
            shown = "" if draws.random() < 0.05 else f"{speed:.3f}"  # not measured
            rows.writerow([f"{seed}-{k}", machine, shown, f"{power * (2 if fault else 1):.3f}"])


def main(out: Path = Path("runs/table")) -> list[dict[str, str]]:
    """The rows of the scores."""
    out.mkdir(parents=True, exist_ok=True)
    write(out / "normal.csv", 600, 0)
    write(out / "new.csv", 50, 1, fault=True)
    model, scores = str(out / "model"), out / "scores.csv"
    # As in a shell: uspebm fit runs/table/normal.csv --out runs/table/model
    assert uspebm(["fit", str(out / "normal.csv"), "--out", model]) == 0
    command = ["score", model, str(out / "new.csv"), "--out", str(scores)]
    assert uspebm([*command, "--why", "1", "--keep", "id"]) == 0
    assert uspebm(["report", model]) == 0
    with scores.open(newline="") as file:
        found = list(csv.DictReader(file))
    print(found[0])
    return found


if __name__ == "__main__":
    main()
