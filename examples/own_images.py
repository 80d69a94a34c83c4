"""Images of one's own, from a folder to scores: here discs, and squares among the new ones.

python examples/own_images.py
"""

from pathlib import Path

import numpy as np
from PIL import Image

from uspebm import EnergyDetector, load, save_model

SIDE = 20


def drawn(n: int, seed: int, square: bool = False) -> np.ndarray:
    """Discs or squares at random places, on grey noise, ``(n, SIDE, SIDE)``."""
    draws = np.random.default_rng(seed)
    y, x = np.mgrid[:SIDE, :SIDE]
    images = draws.normal(60, 5, size=(n, SIDE, SIDE))
    for image in images:
        cx, cy = draws.uniform(7, SIDE - 7, 2)
        away = np.stack([abs(x - cx), abs(y - cy)])
        image[(away.max(0) if square else np.hypot(*away)) < 5] += 120
    return images.clip(0, 255).astype(np.uint8)


def read(folder: Path) -> np.ndarray:
    return np.stack([np.asarray(Image.open(file)) for file in sorted(folder.glob("*.png"))])


def main(out: Path = Path("runs/own-images"), updates: int = 300) -> float:
    """The AUROC of squares among discs."""
    folder = out / "photos"
    folder.mkdir(parents=True, exist_ok=True)
    for k, image in enumerate(drawn(800, 0)):
        Image.fromarray(image).save(folder / f"{k:04}.png")

    # The same call goes on with a training that was interrupted.
    detector = EnergyDetector(random_state=0, max_updates=updates)
    detector.fit(read(folder), folder=out / "run")
    print(detector.verdict())
    save_model(detector, out / "model")

    detector = load(out / "model")
    inside, outside = drawn(200, 1), drawn(200, 2, square=True)
    found = (detector.predict(outside) == -1).mean()
    false = (detector.predict(inside) == -1).mean()
    auroc = detector.evaluate(inside, outside)["auroc"]
    print(f"squares found {found:.0%}, false alarms {false:.0%}, AUROC {auroc.value:.3f}")
    return auroc.value


if __name__ == "__main__":
    main()
