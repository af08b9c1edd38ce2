"""Running commands: dispatch, waiting, transactions, channels."""
