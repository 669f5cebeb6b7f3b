"""Which tokenizer belongs to which template of the corpus, for ``templatefix survey --tokenizers``.

    python tools/corpus_tokenizers.py > tokenizers.json
    templatefix survey ../shared/corpus/models --policy keep-reasoning --tokenizers tokenizers.json

The corpus is the one that ``tests/corpus.py`` finds: its tokenizers lie apart from its models.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.corpus import corpus_entries


def main() -> None:
    named = {
        str(entry.directory.resolve()): str(entry.tokenizer.resolve())
        for entry in corpus_entries()
        if entry.tokenizer is not None
    }
    if not named:
        sys.exit("the corpus is absent: TEMPLATEFIX_CORPUS names its folder")
    print(json.dumps(named, indent=1))


if __name__ == "__main__":
    main()
