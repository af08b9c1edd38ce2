"""Commands on lists: only the one with which walrus waits.  ``pages`` explains the form."""

from typing import Final

TEXT: Final = """
BLPOP key... timeout=double
    since 2.0.0; flags write blocking; keys 1..-2 RW access delete
    Waits until one of walrus's locks is free; there are no lists.
    O(N) for N keys.
    6.0.0: The timeout may have a fraction.
"""
