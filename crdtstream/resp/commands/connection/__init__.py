"""The connection: HELLO, AUTH, PING and others; CLIENT, also about the connections of others."""
