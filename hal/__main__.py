"""``python -m hal``: the same program as ``hal``."""

from .cli import main

if __name__ == "__main__":
    main()
