"""Files of ten megabytes that unpack to much more, or say so: what each costs whoever reads it.

A reader may take 200 MB above the array that it returns, and ten seconds of a processor.
"""

import gzip
import io
import json
import struct
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from .jobs import working_folder
from .report import Row, say

MEBIBYTE = 1 << 20
SECONDS, MEMORY = 10.0, 200
Maker = Callable[[Path], Path]

MEASURED = """
import json, sys, time, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import numpy as np
from uspebm import load
from uspebm.cli.config import with_config
from uspebm.data.readers import open_source

def peak():  # of this process alone: getrusage would count that of the one that started it
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024

def read(path):
    if path.suffix == ".toml":
        return with_config(["fit", "x", "--config", str(path)])
    return load(path) if (path / "model.json").exists() else open_source(path).read()

small, big = map(Path, sys.argv[1:])
load("fashion-mnist")  # loads what is loaded on first use
if small.exists():
    read(small)
before, began = peak(), time.process_time()
try:
    found = read(big)
    size = found.nbytes / 2**20 if isinstance(found, np.ndarray) else 0
    outcome = "read"
except ValueError as error:
    size, outcome = 0, str(error)
print(json.dumps([outcome, time.process_time() - began, peak() - before - size]))
"""


def packed(begin: bytes, part: bytes, times: int) -> bytes:
    """``begin`` and ``part`` so many times, gzipped: members of one file, made at once."""
    return gzip.compress(begin) + gzip.compress(part) * times


def _file(name: str, content: Callable[[], bytes]) -> Maker:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content())
        return folder / name

    return make


def _image(name: str, content: Callable[[], bytes]) -> Maker:
    def make(folder: Path) -> Path:
        _file(name, content)(folder)
        return folder

    return make


def idx_header(*shape: int) -> bytes:
    return bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape)


def npy_header(shape: tuple[int, ...], by_columns: bool = False) -> bytes:
    header = io.BytesIO()
    said = {"descr": "<f8", "fortran_order": by_columns, "shape": shape}
    np.lib.format.write_array_header_1_0(header, said)
    return header.getvalue()


def _npz(shape: tuple[int, ...], parts: int, by_columns: bool = False) -> Callable[[], bytes]:
    def content() -> bytes:
        file = io.BytesIO()
        with (
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
            archive.open("x.npy", "w", force_zip64=True) as member,
        ):
            member.write(npy_header(shape, by_columns))
            for _ in range(parts):
                member.write(bytes(MEBIBYTE))
        return file.getvalue()

    return content


ARRAYS: dict[str, Maker] = {
    "8 GiB in IDX": _file(
        "x.idx.gz", lambda: packed(idx_header(8192, 1024, 1024), bytes(MEBIBYTE), 8192)
    ),
    "900 MiB in IDX": _file(
        "x.idx.gz", lambda: packed(idx_header(900, 1024, 1024), bytes(MEBIBYTE), 900)
    ),
    "an IDX header": _file("x.idx", lambda: idx_header(2**32 - 1, 2**32 - 1, 2**32 - 1)),
    "empty members": _file("x.idx.gz", lambda: packed(b"", b"", 500_000)),
    "2 GiB in npz": _file("x.npz", _npz((1024, 512, 512), 2048)),
    "800 MiB in npz": _file("x.npz", _npz((100, 1024, 1024), 800)),
    "800 MiB by columns": _file("x.npz", _npz((1024, 100, 1024), 800, by_columns=True)),
    "an npz header": _file("x.npz", _npz((1024, 1024, 1024), 1)),
    "an npy header": _file("x.npy", lambda: npy_header((10**6, 10**6)) + bytes(1000)),
    "a long npy header": _file(
        "x.npy", lambda: b"\x93NUMPY\2\0" + struct.pack("<I", 2**32 - 1) + b"(" * 10_000_000
    ),
    "rows": _file("x.npy", lambda: npy_header((1_250_000, 1)) + bytes(10_000_000)),
    "columns": _file("x.npy", lambda: npy_header((1, 1_250_000)) + bytes(10_000_000)),
}


def _parquet(columns: int, rows: int, values: str = "float64", **settings: object) -> Maker:
    def make(folder: Path) -> Path:
        zeros = np.zeros(rows, np.int64 if values == "decimal" else values)
        column = pa.array(zeros)
        if values == "decimal":
            column = column.cast(pa.decimal128(20, 0))
        table = pa.table({f"c{k}": column for k in range(columns)})
        pq.write_table(table, folder / "x.parquet", **settings)
        return folder / "x.parquet"

    return make


ONE_PAGE: dict[str, Any] = {
    "use_dictionary": False,
    "data_page_size": 1 << 30,
    **dict.fromkeys(("row_group_size", "write_batch_size", "max_rows_per_page"), 60_000_000),
}
TABLES: dict[str, Maker] = {
    "8 GiB of CSV": _file("x.csv.gz", lambda: packed(b"a,b\n", b"1,2\n" * (1 << 18), 8192)),
    "250 MiB of CSV": _file("x.csv.gz", lambda: packed(b"a,b\n", b"1,2\n" * (1 << 18), 250)),
    "8 GiB of one line": _file("x.csv.gz", lambda: packed(b"a,b\n", b"1" * MEBIBYTE, 8192)),
    "short rows": _file("x.csv", lambda: b"a\n" + b"1\n" * 5_000_000),
    "2,000 columns": _file("x.csv", lambda: (b"1.5," * 1999 + b"1\n") * 1250),
    "500,000 columns": _file("x.csv", lambda: (b"1," * 499_000 + b"1\n") * 10),
    "open quotes": _file("x.csv", lambda: b"a,b\n" + b'"\n' * 5_000_000),
    "8 GB of Parquet": _parquet(1000, 1_000_000),
    "900 MB of Parquet": _parquet(1000, 120_000),
    "decimals": _parquet(2, 60_000_000, "decimal"),
    "a page, zstd": _parquet(1, 60_000_000, compression="zstd", **ONE_PAGE),
    "a page, snappy": _parquet(1, 60_000_000, compression="snappy", **ONE_PAGE),
    "25,000 columns": _parquet(25_000, 13),
    "row groups": _parquet(100, 2000, row_group_size=5),
}


def _png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    begin = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    return begin + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


def _saved(mode: str, kind: str, **settings: object) -> Callable[[], bytes]:
    def content() -> bytes:
        file = io.BytesIO()
        Image.new(mode, (5000, 5000)).save(file, kind, **settings)
        return file.getvalue()

    return content


def tiff(tags: dict[int, int], after: bytes, listed: int = 1) -> bytes:
    """An image with these tags, whose pixels, or ``listed`` places of them, come ``after``."""
    begin = 8 + 2 + 12 * len(tags) + 4
    entries = b"".join(
        struct.pack("<HHII", tag, 4, listed if tag in (273, 279) else 1, value or begin)
        for tag, value in tags.items()
    )
    header = b"II*\0" + struct.pack("<IH", 8, len(tags))
    return header + entries + struct.pack("<I", 0) + after


def _scans() -> bytes:
    content = _saved("L", "JPEG", progressive=True)()
    scan = content[content.rindex(b"\xff\xda") : -2]
    return content[:-2] + scan * (9_000_000 // len(scan)) + b"\xff\xd9"


GREY = {256: 100, 257: 100, 258: 8, 259: 1, 262: 1, 277: 1}
IMAGES: dict[str, Maker] = {
    "2.5 billion pixels": _image("x.png", lambda: _png(50_000, 50_000)),
    "100 million pixels": _image("x.png", lambda: _png(10_000, 10_000)),
    "25 million pixels": _image("x.png", _saved("RGB", "PNG")),
    "a palette": _image("x.png", _saved("P", "PNG")),
    "WebP": _image("x.webp", _saved("RGB", "WEBP", lossless=True, method=0)),
    "scans": _image("x.jpg", _scans),
    "strips": _image(
        "x.tif",
        lambda: tiff({**GREY, 273: 0, 278: 1, 279: 0}, struct.pack("<I", 8) * 2_400_000, 2_400_000),
    ),
    "a tile": _image(
        "x.tif",
        lambda: tiff({**GREY, 259: 8, 322: 40_000, 323: 40_000, 324: 0, 325: 99}, bytes(99)),
    ),
    "digits": _image("x.pgm", lambda: b"P2 2000 2500 255\n" + b"1 " * 5_000_000),
    "a comment": _image("x.pgm", lambda: b"P5 #" + b"a" * 10_000_000),
}


def _model(**settings: object) -> Maker:
    def make(folder: Path) -> Path:
        from tests.detector.signing import signed
        from uspebm import EnergyDetector, save_model

        rows = np.random.default_rng(0).normal(size=(60, 2))
        save_model(EnergyDetector(max_updates=0, random_state=0).fit(rows), folder / "model")
        network = {"kind": "MLP", "settings": settings}
        signed(folder / "model", energy={"kind": "TiltedEnergy", "network": network})
        return folder / "model"

    return make


def _lists(folder: Path) -> Path:
    model = _model(width=128)(folder)
    (model / "model.json").write_bytes(b'{"format": 2, "a": [' + b"[]," * 3_000_000 + b"1]}")
    return model


SAID: dict[str, Maker] = {
    "100,000 layers": _model(width=128, layers=100_000),
    "a width": _model(width=10**12, layers=3),
    "10 MB of JSON": _lists,
    "50,000 dots": _file("x.toml", lambda: b"a" + b".a" * 50_000 + b" = 1"),
    "2,000 dots": _file("x.toml", lambda: b"seed" + b".a" * 2000 + b" = 1"),
    "brackets": _file("x.toml", lambda: b"seed = " + b"[" * 60_000),
}


def run(seed: int, size: int) -> list[Row]:
    """Every one, ``size`` times over."""
    kinds = {"arrays": ARRAYS, "tables": TABLES, "images": IMAGES, "models, settings": SAID}
    return [_measured(name, bombs, size) for name, bombs in kinds.items()]


def _measured(name: str, bombs: dict[str, Maker], size: int) -> Row:
    began, held, tried = time.monotonic(), 0, 0
    slowest, largest = 0.0, 0.0
    for what, make in list(bombs.items()) * size:
        with working_folder() as folder:
            for place in ("small", "big"):
                (folder / place).mkdir()
            big = make(folder / "big")
            outcome, seconds, memory = _cost(_small(big, folder / "small"), big)
        tried += 1
        slowest, largest = max(slowest, seconds), max(largest, memory)
        sound = seconds < SECONDS and memory < MEMORY and "\n" not in outcome
        held += sound
        told = f"{name}, {what}: {seconds:.1f} s, {memory:.0f} MiB above: {outcome[-120:]}"
        say(f"bombs: {told}" if sound else f"bombs: NOT HELD {told}")
    note = f"at most {slowest:.1f} s, {largest:.0f} MiB above what is returned"
    return Row(f"bombs: {name}", tried, held, time.monotonic() - began, note)


def _small(big: Path, folder: Path) -> Path:
    """A harmless file of the same kind, to load what reading it loads."""
    if big.is_dir() and not (big / "model.json").exists():
        (name,) = (file.name for file in big.iterdir())
        Image.new("L", (4, 4)).save(folder / name)
        return folder
    if big.name.endswith((".csv", ".csv.gz")):
        rows = b"a,b\n1,2\n3,4\n"
        (folder / big.name).write_bytes(gzip.compress(rows) if big.suffix == ".gz" else rows)
    elif big.suffix == ".parquet":
        pq.write_table(pa.table({"a": [1.0, 2.0]}), folder / big.name)
    else:
        return folder / "nothing"
    return folder / big.name


def _cost(small: Path, big: Path) -> tuple[str, float, float]:
    command = [sys.executable, "-c", MEASURED, str(small), str(big)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"ended with {done.returncode}\n{done.stderr[-300:]}", 0.0, 0.0
    outcome, seconds, memory = json.loads(done.stdout)
    return outcome, seconds, memory
