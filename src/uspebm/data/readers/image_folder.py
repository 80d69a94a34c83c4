"""A folder of images, and of folders of images."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import final

import numpy as np

from ...support.reading import UnreadableError
from .images import ENDINGS, ImageForm, form_of, read_image
from .source import Rows, Source

SKIPPING = "(fit, score and evaluate leave such files out with --skip-bad)"


@dataclass(frozen=True)
class FolderRules:
    """How a folder of images is read.

    Arguments:
        resize: Height and width that images of all sizes are brought to; without it, they must
            have one size.
        skip_bad: Whether files that cannot be read, or are unlike the others, are left out.
        wanted: What images must be like, where a model tells. Without it, like the first; or like
            most, by their headers, if bad ones are left out, and half of them at least.
    """

    resize: tuple[int, int] | None = None
    skip_bad: bool = False
    wanted: ImageForm | None = None


AS_THEY_ARE = FolderRules()


@final
class ImageFolder(Source):
    """The images of a folder and of all folders in it, sorted by their paths, opened one at a time.

    All have one size, unless they are resized, and are all grey (8 or 1 bit: bytes, where 1 bit
    gives 0 and 255), all colour (RGB, or a palette: bytes), or all 16-bit grey (float32, not
    scaled). Transparency and animations are refused. Hidden files and folders are left out; other
    files, and links to folders, are an error.

    ``skipped`` tells of the files that were left out, as far as the folder was read, why: by their
    paths from the folder.
    """

    def __init__(self, path: Path, rules: FolderRules = AS_THEY_ARE) -> None:
        self.path = path
        self.skipped: dict[str, str] = {}
        self._rules = rules
        self._paths = sorted(found.relative_to(path).as_posix() for found in _below(path))
        if not self._paths:
            raise UnreadableError(f"{path} is an empty folder: it should hold images")
        for name in self._paths:
            file = path / name
            if file.suffix.lower() not in ENDINGS or not file.is_file():
                self._leave_out(
                    name,
                    UnreadableError(
                        f"{path} should hold images only ({', '.join(ENDINGS)}), but has {name}"
                    ),
                )
        self._wanted = rules.wanted or self._usual()
        self.event_shape = self._wanted.shape
        self.rows = None if rules.skip_bad else len(self._paths)

    def names(self) -> Iterator[str]:
        """Paths from the folder, of the rows in order; only of those that were read before.

        What is not UTF-8 in them is written as ``\\udcff``.
        """
        for name in self._paths:
            if name not in self.skipped:
                yield name.encode(errors="backslashreplace").decode()

    def _blocks(self, size: int) -> Iterator[Rows]:
        images = self._images()
        while block := list(islice(images, size)):
            yield np.stack(block)
        if len(self.skipped) == len(self._paths):
            raise self._nothing_left()

    def _images(self) -> Iterator[Rows]:
        for name in self._paths:
            if name in self.skipped:
                continue
            try:
                image, form = read_image(self.path / name, self._rules.resize)
                self._refuse_unlike(name, form)
            except UnreadableError as error:
                self._leave_out(name, error)
            else:
                yield image

    def _usual(self) -> ImageForm:
        """The form of the first image, or of most."""
        forms = Counter[ImageForm]()
        for name in self._paths:
            if name not in self.skipped:
                try:
                    forms[self._resized(form_of(self.path / name))] += 1
                except UnreadableError as error:
                    self._leave_out(name, error)
            if forms and not self._rules.skip_bad:
                break
        if not forms:
            raise self._nothing_left()
        form, count = forms.most_common(1)[0]
        if 2 * count < forms.total():  # then not the others are odd
            raise UnreadableError(
                f"{self.path} mixes images: of {forms.total():,} that can be read, {count:,} are "
                f"{form}, and no other form has more; make them alike, or fit with --resize"
            )
        return form

    def _resized(self, form: ImageForm) -> ImageForm:
        return form._replace(size=self._rules.resize or form.size)

    def _refuse_unlike(self, name: str, form: ImageForm) -> None:
        wanted = self._wanted
        if self._resized(form) == wanted:
            return
        if self._rules.skip_bad:
            raise UnreadableError(f"{self.path / name} is {form}, not {wanted}")
        how = "save all of them as grey, or all as RGB"
        if form.kind == wanted.kind:
            how = "make them of one size, or fit with --resize, which does"
        raise UnreadableError(
            f"{self.path} mixes images: {self._paths[0]} is {wanted}, {name} is {form}; {how}"
        )

    def _leave_out(self, name: str, error: UnreadableError) -> None:
        if not self._rules.skip_bad:
            raise UnreadableError(f"{error} {SKIPPING}") from error
        self.skipped[name] = str(error)

    def _nothing_left(self) -> UnreadableError:
        reason = next(iter(self.skipped.values()))
        return UnreadableError(
            f"{self.path} has no image to go by; {len(self.skipped):,} skipped, the first: {reason}"
        )


def _below(folder: Path) -> Iterator[Path]:
    """What is in a folder and in those inside, hidden ones left out, in no order.

    Links to folders are not followed, since they may lead back: they come as they are.
    """
    places = [folder]
    while places:
        for entry in places.pop().iterdir():
            if entry.name.startswith("."):
                continue
            if entry.is_dir() and not entry.is_symlink():
                places.append(entry)
            else:
                yield entry
