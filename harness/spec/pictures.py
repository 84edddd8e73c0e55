"""How an element or a page must look: the keys of an `assert` step with `screenshot`, and the name of its baseline."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Self

from pydantic import Field, model_validator

from harness.recovery.declaration import Declaration
from harness.recovery.locators import Selector
from harness.spec.names import slug

_SUFFIX = ".png"
COMPARISONS = "comparisons"
"""The folder for the pictures of comparisons that failed; each has a folder below it, `STEP-BASELINE`."""
EXPECTED, ACTUAL, DIFF = "expected.png", "actual.png", "diff.png"
"""The pictures of a comparison that failed; the last is absent if the sizes differ."""
LOOKS_LIKE = "does not look like"
"""The words of a comparison that failed."""


class PictureKeys(Declaration):
    """The keys of an `assert` that compares a screenshot; their names and meanings are those of Playwright Test."""

    screenshot: str | None = Field(
        None,
        min_length=5,
        max_length=1000,
        description="Name of a file `*.png` with the screenshot that the element, or the page, must look like. The "
        "platform and the browser profile are added: `card.png` is `card-linux.png` or `card-linux-phone.png`. "
        "`--task-update-baselines` writes the file.",
    )
    mask: tuple[Selector, ...] = Field(
        (), max_length=100, description="Selectors whose matches are covered with a pink box before the comparison."
    )
    full_page: bool = Field(
        False, description="Whether the screenshot shows the whole page, not only its visible part."
    )
    max_diff_pixels: int | None = Field(
        None, ge=0, description="How many pixels may differ; by default none, in pixels."
    )
    max_diff_pixel_ratio: float | None = Field(
        None,
        ge=0,
        le=1,
        description="How much of the picture may differ. With `max_diff_pixels` both must hold, as a share.",
    )
    threshold: float = Field(
        0.2,  # Playwright's own default
        ge=0,
        le=1,
        description="How far the colour of a pixel may be off before it differs, from 0 (not at all) to 1, as a share.",
    )

    @model_validator(mode="after")
    def _picture_keys_fit(self) -> Self:
        if self.screenshot is None:
            alone = [name for name in PictureKeys.model_fields if name in self.model_fields_set]
            if named := ", ".join(f"`{name}`" for name in alone if name != "screenshot"):
                raise ValueError(f"{named} of an `assert` needs `screenshot`, the file to compare with")
            return self
        if not self.screenshot.endswith(_SUFFIX):
            raise ValueError(f"`screenshot` of an `assert` names a file `*{_SUFFIX}`, such as `card{_SUFFIX}`")
        if self.full_page and (getattr(self, "selector", None) or getattr(self, "frame", None)):
            raise ValueError("`full_page` is for a screenshot of the page: leave out `selector` and `frame`")
        return self


def platform_of(user_agent: str) -> str:
    """The platform that a browser runs on, in Python's words, by its own User-Agent. Fonts differ between them."""
    names = {"Windows": "win32", "Macintosh": "darwin"}
    return next((name for word, name in names.items() if word in user_agent), "linux")


def baseline_name(declared: str, platform: str, variant: str = "") -> str:
    """The name of the file for a platform and a browser profile: `a/card-linux-phone.png` for `a/card.png`."""
    path = PurePosixPath(declared)
    return str(
        path.with_name("-".join(filter(None, (path.stem, platform, slug(variant) if variant else ""))) + _SUFFIX)
    )


def is_baseline_of(declared: str, name: str) -> bool:
    """Return whether a file is a baseline of this name, for whichever platform and profile. Both are file names."""
    stem = declared.removesuffix(_SUFFIX)
    return name.startswith(f"{stem}-") and name.endswith(_SUFFIX)
