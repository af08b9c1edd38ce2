"""What operators look at and change: INFO, CONFIG, SLOWLOG and others."""
