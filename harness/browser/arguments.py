"""The flags that Chromium is started with. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.browser.domains import no_hosts, resolver_rules

BASE = (
    "--disable-gpu",
    "--disable-quic",
    "--disable-auto-reload",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
SEALED = ("--force-webrtc-ip-handling-policy=disable_non_proxied_udp",)
"""For a browser whose sessions all have allowed_domains. WebRTC sends UDP past the proxy that holds every other
request; with this it sends none, also not to hosts that are allowed.
"""


def host_arguments(hosts: Mapping[str, int], secure: Mapping[str, int], spki: str) -> list[str]:
    """Where the hosts are (`secure`: their https), and whose certificates to take for theirs (`ThrowAwayKey`)."""
    if not hosts:
        return []
    rules = resolver_rules(hosts, secure)
    return [f"--host-resolver-rules={rules}", f"--ignore-certificate-errors-spki-list={spki}"]


def unreachable_arguments(hosts: Iterable[str]) -> list[str]:
    """For a browser that cannot reach them: nobody else is to be taken for them either."""
    return [f"--host-resolver-rules={rules}"] if (rules := no_hosts(hosts)) else []
