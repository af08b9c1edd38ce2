"""redis-cli at a node that takes clients over TLS alone."""

from tests.clients.secured import PASSWORD, Secured
from tests.clients.terminal import run
from tests.conftest import program

PIPELINE = 1_000


def cli(
    secured: Secured,
    *words: str,
    holder: str | None = "client-app",
    authority: str = "ca.pem",
    stdin: str = "",
) -> str:
    shown = secured.files.pair(holder) if holder else ()
    return run(
        *(program("redis-cli"), "-p", str(secured.port), "--tls"),
        *("--cacert", secured.files.folder / authority),
        *(word for pair in zip(("--cert", "--key"), shown, strict=False) for word in pair),
        *words,
        stdin=stdin,
    )


def test_a_certificate_is_the_login(secured: Secured) -> None:
    for protocol in ("-2", "-3"):
        assert cli(secured, protocol, "ACL", "WHOAMI").strip('"\n') == "app"


def test_a_name_and_a_password_replace_the_user_of_the_certificate(secured: Secured) -> None:
    login = ("--user", "reader", "--pass", PASSWORD, "--no-auth-warning")
    for holder in ("client-app", "client-stranger"):
        assert cli(secured, *login, "ACL", "WHOAMI", holder=holder) == "reader\n"


def test_a_command_that_the_user_may_not_run_is_an_error(secured: Secured) -> None:
    assert cli(secured, "XRANGE", "orders:1", "-", "+", holder="client-reader") == "\n"
    refused = cli(secured, "XADD", "orders:1", "*", "f", "v", holder="client-reader")
    assert refused == "NOPERM User reader has no permissions to run the 'xadd' command\n\n"


def test_clients_without_a_good_certificate_are_not_served(secured: Secured) -> None:
    for holder in (None, "client-expired", "client-forged"):
        assert cli(secured, "PING", holder=holder) == "Error: Server closed the connection\n"
    assert "certificate verify failed" in cli(secured, "PING", authority="other-ca.pem")


def test_a_certificate_of_no_user_and_a_wrong_password_are_no_login(secured: Secured) -> None:
    assert cli(secured, "PING", holder="client-stranger").startswith("NOAUTH")
    wrong = ("--user", "app", "--pass", "a-wrong-password-of-users", "--no-auth-warning")
    assert "WRONGPASS" in cli(secured, *wrong, "PING", holder="client-stranger")


def test_a_long_pipeline_and_a_large_value(secured: Secured) -> None:
    requests = "XADD s * f v\r\n" * PIPELINE
    assert f"errors: 0, replies: {PIPELINE}" in cli(secured, "--pipe", stdin=requests)
    value = "0123456789abcdef" * (8 << 20 >> 4)
    assert cli(secured, "-x", "SET", "large", stdin=value) == "OK\n"
    assert cli(secured, "GET", "large") == value + "\n"


def test_a_renewed_certificate_of_the_node_is_taken(secured: Secured) -> None:
    def use(name: str) -> str:
        certificate, key = map(str, secured.files.pair(name))
        return cli(secured, "CONFIG", "SET", "tls-cert-file", certificate, "tls-key-file", key)

    try:
        assert use("renewed") == "OK\n"
        assert cli(secured, "PING") == "PONG\n"
    finally:
        assert use("region-1") == "OK\n"
