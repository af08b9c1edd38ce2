"""``python -m crdtstream``: the same as ``crdtstream``."""

from crdtstream.cli.main import main

if __name__ == "__main__":
    main()
