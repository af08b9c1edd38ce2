"""The server as its operators see it: INFO, CONFIG, SLOWLOG, MONITOR, COMMAND and others."""
