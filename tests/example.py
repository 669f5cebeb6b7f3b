"""The example that ships with the project."""

from pathlib import Path

import templatefix

EXAMPLE = Path(templatefix.__file__).parent / "example"
