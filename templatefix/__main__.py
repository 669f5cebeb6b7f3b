"""``python -m templatefix``."""

from templatefix.cli import main

if __name__ == "__main__":
    main()
