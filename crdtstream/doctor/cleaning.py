"""Cleaning of texts: what is quoted in them may be a key, and a known secret may be anywhere."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

# In place of what was removed.
REMOVED: Final = "…"
# A shorter secret would also be found where it is none.
SECRET_CHARACTERS_MIN: Final = 4

# Quotes around a word, not the apostrophe within one; of bytes with the letter before.
_QUOTED: Final = re.compile(r"""(?<!\w)b?(['"])(?:\\.|(?!\1).)*\1(?!\w)""", re.DOTALL)


class Cleaner:
    """Removes quoted parts and known secrets.

    Args:
        secrets: as they stand in settings and in the environment.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # The longest first: one may begin another.
        known = {secret for secret in secrets if len(secret) >= SECRET_CHARACTERS_MIN}
        self._secrets = sorted(known, key=len, reverse=True)

    def cleaned(self, value: Any) -> Any:
        """The value with every text in it cleaned, names of mappings too."""
        match value:
            case str():
                return self._text(value)
            case Mapping():
                return {self.cleaned(name): self.cleaned(one) for name, one in value.items()}
            case list() | tuple():
                return [self.cleaned(one) for one in value]
        return value

    def _text(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, REMOVED)
        return _QUOTED.sub(f"'{REMOVED}'", text)
