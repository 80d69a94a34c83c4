"""Every reader of the package, with small files that it reads, to be damaged."""

import copy
import gzip
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.torch
import torch
from PIL import Image

import uspebm
from tests.recipes.common import mixture, small_table
from uspebm import CheckpointError, EnergyDetector, load_snapshot, save_model
from uspebm.cli.config import with_config
from uspebm.data.readers import open_source
from uspebm.detector import folder as model_folder
from uspebm.recipes import Run
from uspebm.recipes.tables import TiltedKernel
from uspebm.training import snapshot
from uspebm.training.archive import LENGTH
from uspebm.training.checkpoint import load_checkpoint, save
from uspebm.training.sealed import sealing

from .mutations import mutated

NUMBERS = np.random.default_rng(0)
TABLE = NUMBERS.normal(size=(7, 3))
BYTES = NUMBERS.integers(0, 256, (4, 5, 6), dtype=np.uint8)
Change = Callable[[bytes, Random, Sequence[bytes]], bytes]


class Target(NamedTuple):
    """A reader to attack.

    Arguments:
        seeds: Contents that it reads.
        place: Writes a content into a folder of its own; what to read then.
        read: Reads it.
        share: Of all inputs; the quick ones get more.
        change: Damages a content.
        refused: What it may raise, and nothing else.
    """

    seeds: list[bytes]
    place: Callable[[Path, bytes], Path]
    read: Callable[[Path], object]
    share: float
    change: Change = mutated
    refused: type[Exception] = ValueError


def called(name: str) -> Callable[[Path, bytes], Path]:
    """A file of this name."""

    def place(folder: Path, content: bytes) -> Path:
        path = folder / name
        path.write_bytes(content)
        return path

    return place


def in_folder(name: str) -> Callable[[Path, bytes], Path]:
    """A folder with a file of this name."""

    def place(folder: Path, content: bytes) -> Path:
        called(name)(folder, content)
        return folder

    return place


def within(pack: Callable[[bytes], bytes], share: float = 0.6) -> Change:
    """Damage before a content is packed, more often than after it."""

    def change(content: bytes, draws: Random, others: Sequence[bytes]) -> bytes:
        if draws.random() < share:
            return pack(mutated(content, draws, others))
        return mutated(pack(content), draws, [pack(other) for other in others])

    return change


def read_data(path: Path) -> object:
    """All rows, which are numbers."""
    rows = open_source(path).read()
    assert np.isfinite(rows).all()
    assert len(rows)
    return rows


# Arrays


def _npy(array: Any, version: tuple[int, int] = (1, 0)) -> bytes:
    content = io.BytesIO()
    np.lib.format.write_array(content, np.asarray(array), version=version)
    return content.getvalue()


def _zipped(content: bytes, name: str = "X.npy", method: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method, compresslevel=1) as archive:
        archive.writestr(zipfile.ZipInfo(name), content, method)
    return packed.getvalue()


IDX = [bytes([0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 6]) + BYTES.tobytes()]
NPY = [
    _npy(TABLE),
    _npy(np.asfortranarray(TABLE)),
    _npy(TABLE.astype(">f4")),
    _npy(BYTES),
    _npy(BYTES.astype(np.int64), (2, 0)),
    _npy(TABLE > 0),
    _npy(np.asfortranarray(BYTES)),
]


# Tables


def _csv(comma: str) -> list[bytes]:
    lines = [comma.join(map(repr, row)) for row in TABLE.tolist()]
    named = [comma.join(["a", '"b ö"', "c"]), *lines]
    mixed = [comma.join(["a", "b", "c"]), comma.join(["1", "true", "2.5"]), ""]
    return [
        "\n".join(lines).encode(),
        "\r\n".join(named).encode(),
        b"\xef\xbb\xbf" + "\n".join(mixed).encode(),
        ("\n".join(["1" + comma + "2"] * 40) + "\n").encode(),
    ]


def _parquet() -> list[bytes]:
    names = dict(zip("abc", TABLE.T, strict=True))
    tables = [
        pa.table(names),
        pa.table({"a": [1, 2, 3], "b": [True, False, True], "c": [0.5, 1.5, 2.5]}),
        pa.table({"a": pa.array([1.0, None, 2.0], pa.float32()), "b": ["x", "y", "z"]}),
        pa.table({"a": pa.array([1, 2]).cast(pa.decimal128(22, 2))}),
    ]
    settings: list[dict[str, Any]] = [
        {},
        {"compression": "zstd", "use_dictionary": False},
        {"compression": "gzip", "data_page_version": "2.0"},
        {"compression": "none", "row_group_size": 2, "write_page_index": True},
    ]
    found = []
    for table, setting in zip(tables, settings, strict=True):
        content = io.BytesIO()
        pq.write_table(table, content, **setting)
        found.append(content.getvalue())
    return found


# Images


def _images(kind: str, **settings: Any) -> list[bytes]:
    found = []
    for image in (
        Image.fromarray(BYTES[0]),
        Image.fromarray(NUMBERS.integers(0, 256, (6, 5, 3), dtype=np.uint8)),
        Image.fromarray(BYTES[1]).convert("1"),
        Image.fromarray(NUMBERS.integers(0, 65536, (6, 5)).astype(np.uint16)),
        Image.fromarray(BYTES[2]).convert("P"),
    ):
        content = io.BytesIO()
        with suppress(OSError, ValueError):  # a mode that the format does not have
            image.save(content, kind, **settings)
            found.append(content.getvalue())
    return found


def _png_sums(content: bytes) -> bytes:
    """With the checksums of its chunks made right."""
    parts, at = [content[:8]], 8
    while at + 12 <= len(content):
        size = struct.unpack(">I", content[at : at + 4])[0]
        body = content[at + 4 : at + 8 + size]
        parts.append(content[at : at + 4] + body + struct.pack(">I", zlib.crc32(body)))
        at += 12 + size
    return b"".join(parts) + content[at:]


# Models, checkpoints, snapshots

STRANGE: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 7, 2.5, 1e308, -(10**9), 10**9, 10**18, 10**400, "", "x", "own", "MLP"),
    *(
        [],
        {},
        [[]],
        [1e9, 1e9],
        {"kind": "own"},
        {"kind": "TiltedEnergy"},
        ["a"] * 3,
        "\u2028\x1b[",
    ),
)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in JSON that holds something."""
    inside: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inside = [(value, key) for key in value]
    elif isinstance(value, list):
        inside = [(value, k) for k in range(len(value))]
    return inside + [place for holder, key in inside for place in _places(holder[key])]


def _json_changed(content: bytes, draws: Random, others: Sequence[bytes]) -> bytes:
    """A value exchanged, lost or put inside itself; or bytes, as everywhere."""
    if draws.random() < 0.3:
        return mutated(content, draws, others)
    value = json.loads(content)
    for _ in range(draws.choice((1, 1, 2, 3))):
        holder, key = draws.choice(_places(value))
        how = draws.random()
        if how < 0.7:
            holder[key] = copy.deepcopy(draws.choice(STRANGE))
        elif how < 0.85:
            del holder[key]
        else:
            holder[key] = [copy.deepcopy(holder[key])] * 3
    return json.dumps(value).encode()


SMALL = replace(small_table(updates=1), energy=TiltedKernel(centres=5, width=4, layers=2))


def _model(folder: Path) -> tuple[bytes, bytes]:
    detector = EnergyDetector(SMALL, random_state=0).fit(mixture(60).numpy())
    save_model(detector, folder)
    return (folder / model_folder.ABOUT).read_bytes(), (folder / model_folder.WEIGHTS).read_bytes()


def _signed(about: bytes, weights: bytes) -> bytes:
    """What is said of a model, with the checksum that belongs to it."""
    with suppress(ValueError, TypeError, RecursionError):
        said = dict(json.loads(about))
        said["sha256"] = model_folder._checksum(said, weights)
        return json.dumps(said).encode()
    return about


def _models(folder: Path) -> dict[str, Target]:
    about, weights = _model(folder / "valid")

    def with_json(place: Path, content: bytes) -> Path:
        (place / model_folder.WEIGHTS).write_bytes(weights)
        (place / model_folder.ABOUT).write_bytes(_signed(content, weights))
        return place

    def with_weights(place: Path, content: bytes) -> Path:
        (place / model_folder.WEIGHTS).write_bytes(content)
        (place / model_folder.ABOUT).write_bytes(_signed(about, content))
        return place

    return {
        "model.json": Target([about], with_json, _scored, 0.06, _json_changed),
        "weights": Target([weights], with_weights, _scored, 0.06, _weights_changed),
    }


def _scored(path: Path) -> object:
    """A model that is read can be used: scores are numbers, or as low as can be."""
    detector = uspebm.load(path)
    scores = detector.score_samples(np.zeros((2, *detector.event_shape_)))
    assert not np.isnan(scores).any()
    return scores


def _repacked(content: bytes, draws: Random, others: Sequence[bytes]) -> bytes:
    """A checkpoint's archive with one of its parts damaged, and all checksums right."""
    packed = io.BytesIO()
    rows = LENGTH + int.from_bytes(content[:LENGTH])
    with (
        zipfile.ZipFile(io.BytesIO(content[LENGTH:rows])) as old,
        zipfile.ZipFile(packed, "w") as new,
    ):
        names = old.namelist()
        pickled = next(name for name in names if name.endswith("data.pkl"))
        chosen = pickled if draws.random() < 0.7 else draws.choice(names)
        for name in names:
            part = old.read(name)
            new.writestr(name, mutated(part, draws, [part]) if name == chosen else part)
    return packed.tell().to_bytes(LENGTH) + packed.getvalue() + content[rows:]


def _sealed(content: bytes) -> bytes:
    file = io.BytesIO()
    with sealing(file) as sealed:
        sealed.write(content)
    return file.getvalue()


def _checkpoint_changed(content: bytes, draws: Random, others: Sequence[bytes]) -> bytes:
    if draws.random() < 0.3:
        return mutated(_sealed(content), draws, others)
    change = _repacked if draws.random() < 0.7 else mutated
    return _sealed(change(content, draws, others))


def _tensors_changed(content: bytes, draws: Random) -> dict[str, torch.Tensor]:
    """One exchanged, lost or renamed."""
    weights = safetensors.torch.load(content)
    name = draws.choice(sorted(weights))
    tensor = weights.pop(name)
    how = draws.randrange(6)
    if how == 1:
        weights[f"{name}x"] = tensor
    elif how == 2:
        weights[name] = tensor.reshape(-1)[: draws.randrange(2)].contiguous()
    elif how == 3:
        kinds = (torch.float16, torch.bfloat16, torch.int8, torch.bool, torch.float64)
        weights[name] = tensor.to(draws.choice(kinds))
    elif how == 4:
        weights[name] = tensor[None]
    elif how == 5:
        values = (float("nan"), float("inf"), -1e38, 0.0, -1.0)
        weights[name] = torch.full_like(tensor, draws.choice(values))
    return weights


def _weights_changed(content: bytes, draws: Random, others: Sequence[bytes]) -> bytes:
    if draws.random() < 0.6:
        return mutated(content, draws, others)
    return safetensors.torch.save(_tensors_changed(content, draws))


def _snapshot_changed(content: bytes, draws: Random, others: Sequence[bytes]) -> bytes:
    """Bytes; or tensors, with the checksum that belongs to them."""
    if draws.random() < 0.5:
        return mutated(content, draws, others)
    weights = _tensors_changed(content, draws)
    said: dict[str, str] = {}
    with suppress(TypeError):  # numpy has no such numbers
        said["checksum"] = snapshot._checksum(weights, {})
    return safetensors.torch.save(weights, {snapshot.ABOUT_SNAPSHOT: json.dumps(said)})


def _trainings(folder: Path) -> dict[str, Target]:
    run = Run(SMALL, mixture(60), None, 0, show=False)
    state = run.state
    checkpoint = save(state, folder / "run").read_bytes()
    snapshot.save_snapshot(state.module, folder / "weights.safetensors", what="a test")
    start = len(_sealed(b""))

    def resumed(path: Path) -> None:
        load_checkpoint(state, path)

    def loaded(path: Path) -> None:
        load_snapshot(state.module, path)

    kept = (folder / "weights.safetensors").read_bytes()
    return {
        "checkpoint": Target(
            [checkpoint[start:]],
            called("step-000000001.ckpt"),
            resumed,
            0.06,
            _checkpoint_changed,
            CheckpointError,
        ),
        "snapshot": Target(
            [kept], called("x.safetensors"), loaded, 0.08, _snapshot_changed, CheckpointError
        ),
    }


# Settings

TOML = [
    b'out = "model"\ndrop = ["b", "c"]\nrows = 110\nrecipe = "tables"\nseed = 3\njson = true\n',
    b"max-updates = 0\ncalibration = 0.3\nfalse-alarm-rate = 1e-1\n[a.b]\nc = {d = 1, e = [2]}\n",
]


def _configured(path: Path) -> object:
    return with_config(["fit", "data.csv", "--config", str(path)])


def targets(folder: Path) -> dict[str, Target]:
    """All readers; ``folder`` is for what has to be made first."""
    packed = within(lambda content: gzip.compress(content, 1))
    pictures = {
        "PNG": Target(_images("PNG"), in_folder("x.png"), read_data, 0.05, within(_png_sums, 0.9)),
        "JPEG": Target(_images("JPEG"), in_folder("x.jpg"), read_data, 0.04),
        "BMP": Target(_images("BMP"), in_folder("x.bmp"), read_data, 0.04),
        "TIFF": Target(
            _images("TIFF")
            + _images("TIFF", compression="tiff_deflate")
            + _images("TIFF", compression="tiff_lzw"),
            in_folder("x.tif"),
            read_data,
            0.05,
        ),
        "WebP": Target(_images("WEBP", lossless=True), in_folder("x.webp"), read_data, 0.02),
        "PGM": Target(
            [*_images("PPM"), b"P2 3 2 9\n1 2 3 4 5 6\n"], in_folder("x.pgm"), read_data, 0.04
        ),
    }
    return {
        "IDX": Target(IDX, called("x.idx"), read_data, 0.08),
        "IDX, gzipped": Target(IDX, called("x.idx.gz"), read_data, 0.06, packed),
        "npy": Target(NPY, called("x.npy"), read_data, 0.1),
        "npz": Target(NPY, called("x.npz"), read_data, 0.08, within(_zipped)),
        "CSV": Target(_csv(","), called("x.csv"), read_data, 0.06),
        "CSV, gzipped": Target(_csv(","), called("x.csv.gz"), read_data, 0.04, packed),
        "TSV": Target(_csv("\t"), called("x.tsv"), read_data, 0.03),
        "Parquet": Target(_parquet(), called("x.parquet"), read_data, 0.05),
        **pictures,
        **_models(folder),
        **_trainings(folder),
        "settings": Target(TOML, called("fit.toml"), _configured, 0.03),
    }
