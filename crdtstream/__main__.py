"""``python -m crdtstream``: the same as ``crdtstream``."""

from crdtstream.cli.start import main

if __name__ == "__main__":
    main()
