"""What the benchmark asks of an interpreter that has templatefix: run by ``speed.py``.

``floor DIR``: the seconds that plain Jinja takes to compile every template of a folder.
``renders DIR``: how many different prompts a check of each template renders.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path

from jinja2 import TemplateError

from templatefix.api import CheckOptions, SourceOptions, check_target
from templatefix.chat.server import Server
from templatefix.render.jinja import make_environment


def floor(files: list[Path]) -> dict[str, float]:
    texts = [file.read_text("utf-8") for file in files]
    start = time.process_time()
    for text in texts:
        with contextlib.suppress(TemplateError, SyntaxError):
            make_environment().from_string(text)
    return {"templates": len(texts), "seconds": time.process_time() - start}


def renders(files: list[Path]) -> list[int]:
    servers: list[Server] = []
    begin = Server.__init__

    def remember(self: Server, *args: object, **kwargs: object) -> None:
        begin(self, *args, **kwargs)  # type: ignore[arg-type]
        servers.append(self)

    Server.__init__ = remember  # type: ignore[method-assign]
    for file in files:
        check_target(str(file), SourceOptions(), CheckOptions(max_examples=0))
    return [server.renders for server in servers]


if __name__ == "__main__":
    what, directory = sys.argv[1:]
    found = sorted(Path(directory).glob("*.jinja"))
    print(json.dumps(floor(found) if what == "floor" else renders(found)))
