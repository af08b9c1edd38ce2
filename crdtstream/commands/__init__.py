"""Redis commands: functions of replica, time and arguments to a reply."""
