"""The RESP shell: its parser, its protocol under good and bad input, its commands."""
