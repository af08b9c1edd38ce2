"""Access to a node besides that of Redis clients: logins and certificates of calls and pages."""
