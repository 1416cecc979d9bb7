"""What docker and compose say of engines behind TLS, and of engines that are too old: real texts, cause and next step."""

from __future__ import annotations

import pytest

from dkdbg.targets.engine_errors import explain

GET = 'error during connect: Get "https://172.17.0.5:2376/v1.50/info": '


@pytest.mark.parametrize(
    ("said", "cause", "hint"),
    [
        (
            "Error response from daemon: Client sent an HTTP request to an HTTPS server.",
            "this engine speaks TLS, and docker was not told to",
            "DOCKER_TLS_VERIFY=1",
        ),
        (
            'error during connect: Get "https://127.0.0.1:2375/v1.50/info": http: server gave HTTP response to HTTPS client',
            "this engine does not speak TLS",
            "DOCKER_HOST=ssh://",
        ),
        (
            "Failed to initialize: unable to resolve docker endpoint: open /c/ca.pem: no such file or directory",
            "the certificates for this engine cannot be read",
            "DOCKER_CERT_PATH",
        ),
        (
            "open /root/.docker/ca.pem: no such file or directory",
            "the certificates for this engine cannot be read",
            "unset DOCKER_TLS_VERIFY",
        ),
        (
            f"{GET}remote error: tls: certificate required",
            "the engine wants a certificate of yours",
            "cert.pem",
        ),
        (
            f"{GET}tls: failed to verify certificate: x509: certificate signed by unknown authority",
            "what answers there is not the engine that ca.pem vouches for",
            "ca.pem",
        ),
        (
            "Error response from daemon: client version 1.99 is too new. Maximum supported API version is 1.45",
            "this engine is older than the API that docker was told to speak",
            "unset DOCKER_API_VERSION",
        ),
        (
            "Error response from daemon: client version 1.12 is too old. Minimum supported API version is 1.24, please upgrade your",
            "this docker is older than what the engine still speaks",
            "docker-compose-plugin",
        ),
        (
            '"specify health-check start interval" requires API version 1.44, but the Docker daemon API version is 1.43',
            "this engine is too old for something that your compose file asks for",
            "upgrade the engine",
        ),
    ],
)
def test_the_cause_and_a_next_step_are_said_and_the_engine_is_quoted(said, cause, hint):
    error = explain(1, f"one line before\n{said}\n")
    assert error.message.startswith(cause)
    assert said[:60] in error.message
    assert hint in error.hint


def test_a_build_that_does_not_trust_an_index_is_still_told_from_an_engine_that_is_not_trusted():
    said = "#9 12.3 x509: certificate signed by unknown authority"
    assert "the build does not trust" in explain(17, said).message
