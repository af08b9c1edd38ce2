"""What the disk did to us, told so that an operator knows where and what to do."""


class StoreError(Exception):
    """Folder, file or row cannot be used; the text says which, why and what to do."""


class LogCutError(StoreError):
    """What is asked for was cut off the log's beginning; nothing is damaged."""
