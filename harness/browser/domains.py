"""The URLs that a task may open, and the real addresses of its hosts. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from urllib.parse import urljoin, urlsplit

from harness.recovery.failure import Failed, Failure
from harness.spec.names import Domains, host_of, names, with_scheme

_HTTP_PORT = 80
_HTTPS_PORT = 443


def resolve(url: str, base: str | None) -> str:
    """The absolute URL to open; raises Failed for a URL that a task may not open."""
    absolute = _join_url(base, url)
    if absolute == "about:blank":
        return absolute
    if _scheme(absolute) not in ("http", "https"):
        raise Failed(Failure("INVALID_INPUT", f"cannot open {url}: {_refusal(absolute)}", details={"url": url}))
    if not host_of(absolute):
        raise Failed(Failure("INVALID_INPUT", f"cannot open {url}: it names no host", details={"url": url}))
    return absolute


def _refusal(url: str) -> str:
    if _scheme(url):
        return "only http and https are allowed"
    meant = with_scheme(url)
    return "no base_url is set for a relative URL" + (f"; did you mean {meant} ?" if meant else "")


def _join_url(base: str | None, url: str) -> str:
    try:
        return urljoin(base, url) if base else url
    except ValueError:  # it is no URL: the checks below report that
        return url


def _scheme(url: str) -> str:
    try:
        return urlsplit(url).scheme.lower()
    except ValueError:
        return ""


def check(url: str, domains: Domains) -> None:
    """Raise Failed (POLICY_DOMAIN) if the URL's host is neither an allowed one nor a subdomain of one."""
    if domains.allows(url):
        return
    host = domains.host(url)
    message = f"{host} is outside the task's allowed_domains ({', '.join(domains.allowed)})"
    raise Failed(Failure("POLICY_DOMAIN", message, details={"url": url, "host": host}))


def bypass(domains: Domains) -> str:
    """Chromium's proxy bypass list: these hosts and their subdomains do not use the closed proxy."""
    return ",".join(["<-loopback>", *(f"{name},*.{name}" for name in names((*domains.allowed, *domains.servers)))])


def resolver_rules(hosts: Mapping[str, int], secure: Mapping[str, int]) -> str:
    """Chromium's `--host-resolver-rules`; the first rule that fits counts. `secure`: host -> port of its https."""
    rules = [(f"{host}:{_HTTPS_PORT}", port) for host, port in sorted(secure.items())]
    return ", ".join(f"MAP {pattern} 127.0.0.1:{port}" for pattern, port in [*rules, *sorted(hosts.items())])


def no_hosts(hosts: Iterable[str]) -> str:
    """Resolver rules by which these hosts do not exist."""
    return ", ".join(f"MAP {host} ~NOTFOUND" for host in sorted(hosts))


def mapped(url: str, hosts: Mapping[str, int]) -> tuple[str, str | None]:
    """The URL to connect to, and the Host header if it differs. A mapped host itself serves only plain http."""
    parts = urlsplit(url)
    port = hosts.get(host_of(url))
    if port is None:
        return url, None
    check_port(url, hosts)
    target = parts._replace(scheme="http", netloc=f"127.0.0.1:{port}")
    return target.geturl(), parts.netloc.rpartition("@")[2]


def check_port(url: str, hosts: Mapping[str, int]) -> None:
    """Raise Failed for a mapped host's https on another port than 443, or its http on 443: nothing listens there."""
    secure = _scheme(url) == "https"
    if host_of(url) not in hosts or secure == (_port(url, _HTTPS_PORT if secure else _HTTP_PORT) == _HTTPS_PORT):
        return
    message = (
        f"cannot open {url}: hosts of [tool.harness.services] serve https on port {_HTTPS_PORT} only, and "
        "http on other ports"
    )
    raise Failed(Failure("INVALID_INPUT", message, details={"url": url}))


def check_reach(url: str, unreachable: Collection[str]) -> None:
    """Raise Failed for a host of this machine that a browser on another machine cannot reach."""
    host = host_of(url)
    if host not in unreachable:
        return
    message = (
        f"cannot open {url}: {host} is served on 127.0.0.1 of the machine that runs the task "
        "([tool.harness.services]), and the browser of --task-browser-endpoint runs on another one"
    )
    raise Failed(Failure("BROWSER_ENDPOINT_UNFIT", message, details={"url": url, "host": host}))


def _port(url: str, default: int) -> int:
    try:
        return urlsplit(url).port or default
    except ValueError:  # it has no valid port: the browser reports that
        return default
