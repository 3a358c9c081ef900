"""The HTTP client that the modules of the trainers share."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from typing import Any, Mapping, Sequence

Score = Mapping[str, Any]
"""One score as the service answers it: status, phi, term, weight and so on."""

_AGAIN = (429, 502, 503, 504)  # statuses after which the same request is sent again


class ServiceError(RuntimeError):
    """The service refused a request, or could not be reached.

    ``status`` is the HTTP status, 0 where there was none.
    """

    def __init__(self, status: int, message: str, hint: str = "") -> None:
        super().__init__(message + (f" ({hint})" if hint else ""))
        self.status = status


class Client:
    """Asks an Understudy service for rewards.

    Sending the same outputs again pays nothing twice, so every request is
    repeated after a lost connection.

    Args:
        url: of the service; by default ``UNDERSTUDY_URL``.
        token: of the service's auditor role; by default ``UNDERSTUDY_TOKEN``.
        policy: name of the policy in training; by default ``UNDERSTUDY_POLICY``.
        run: where verdicts are kept; by default the service names it after the policy.
        timeout: seconds until what has no verdict is left pending.
        retries: how often a request is sent again.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        policy: str | None = None,
        run: str | None = None,
        timeout: float = 120.0,
        retries: int = 5,
    ) -> None:
        self.url = (url or os.environ.get("UNDERSTUDY_URL", "http://127.0.0.1:8080")).rstrip("/")
        self.token = token or os.environ.get("UNDERSTUDY_TOKEN", "")
        self.policy = policy or os.environ.get("UNDERSTUDY_POLICY", "policy")
        self.run = run
        self.timeout = timeout
        self.retries = retries

    def score(
        self,
        outputs: Sequence[Mapping[str, Any]],
        checkpoint: int = 0,
        policy: str | None = None,
        run: str | None = None,
    ) -> list[Score]:
        """Score outputs of one training step, in order.

        What has no verdict when the timeout has passed keeps the status
        ``pending``: no number, as a masked one has none.
        """
        if not outputs:
            return []
        deadline = time.monotonic() + self.timeout
        batch: dict[str, Any] = {
            "policy": policy or self.policy,
            "checkpoint": int(checkpoint),
            "deadline_ms": max(1, int(min(self.timeout, 40.0) * 1000)),
            "outputs": list(outputs),
        }
        if run or self.run:
            batch["run"] = run or self.run
        answer = self.request("POST", "/v1/score", batch, deadline)
        while answer["pending"] and time.monotonic() < deadline:
            wait = int(max(1.0, min(40.0, deadline - time.monotonic()) * 1000))
            answer = self.request("GET", f"/v1/scores/{answer['id']}?wait_ms={wait}", None, deadline)
        return list(answer["scores"])

    def request(self, method: str, path: str, body: Any = None, deadline: float | None = None) -> Any:
        """Send one request and return the JSON of its answer.

        Raises:
            ServiceError: the service refused it, or could not be reached in time.
        """
        if deadline is None:
            deadline = time.monotonic() + self.timeout
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        for attempt in range(self.retries + 1):
            try:
                return self._send(method, path, data, max(1.0, deadline - time.monotonic() + 5.0))
            except ServiceError as error:
                again = error.status == 0 or error.status in _AGAIN
                pause = min(0.2 * 2**attempt, 5.0)
                if not again or attempt == self.retries or time.monotonic() + pause > deadline:
                    raise
                time.sleep(pause)
        raise AssertionError("unreachable")

    def _send(self, method: str, path: str, data: bytes | None, timeout: float) -> Any:
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise _refusal(error) from error
        except (OSError, ValueError) as error:  # no connection, a broken one, a broken answer
            raise ServiceError(0, f"{self.url}{path}: {error}") from error


def _refusal(error: urllib.error.HTTPError) -> ServiceError:
    try:
        said = json.load(error)["error"]
        return ServiceError(error.code, said.get("message", ""), said.get("hint", ""))
    except (ValueError, KeyError, TypeError, OSError):
        return ServiceError(error.code, f"HTTP {error.code}")
