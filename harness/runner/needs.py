"""Which services a task needs: those whose hosts it names, in its domains, its steps or its channels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urljoin

from harness.model.channel_settings import ChannelSettings
from harness.model.plan import Plan
from harness.model.service_settings import targets_in
from harness.model.settings import Settings
from harness.model.tool_settings import offered_to_agents
from harness.spec.names import host_of, reaches
from harness.values import texts_of

_HOST = re.compile(r"//(?:[^/?#\s@]*@)?([^/?#\s'\"<>:\\]+)")
"""What may be a host in a text; it is compared with the hosts of services."""
_LATE_HOST = re.compile(r"\s*(?:[A-Za-z]+://[^/]*)?\$\{memory\.")
"""The beginning of a URL whose host is known only while the task runs."""
_NAMES_NO_HOST = {"steps", "parametrize", "routes", "rubrics", "task_id", "episode_id", "dependencies", "goal"}
"""Keys of a task that are not looked at: its steps are in the plan, and requests of `routes` reach no service."""


class Needs:
    """The services of a project, by what names them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._hosts = {host: name for name, each in settings.services.items() for host in each.declared}
        servers = {name: host_of(each.url or "") for name, each in settings.tools.items()}
        self._servers = {name: {self._hosts[host]} for name, host in servers.items() if host in self._hosts}
        self._channels = {name: self._behind(each) for name, each in settings.channels.items()}

    def of(self, plan: Plan) -> frozenset[str] | None:
        """The names of the services that the task needs; None if nobody can know, so that it may need all of them."""
        inside = [plan.alternative, *(each.task for each in plan.repairs)]
        logins = [each.login for each in plan.users if each.login is not None]
        inside += [task for login in logins for task in (login.plan, login.check)]
        found = [self._of_one(plan), *(self.of(each) for each in inside if each is not None)]
        return None if None in found else frozenset().union(*(each for each in found if each is not None))

    def channels_of(self, services: frozenset[str]) -> frozenset[str]:
        """The channels that need one of these services."""
        return frozenset(name for name, needed in self._channels.items() if needed & services)

    def _of_one(self, plan: Plan) -> frozenset[str] | None:
        domains = plan.spec.allowed_domains
        texts = frozenset(_texts_of(plan))
        named = {host.lower() for text in texts for host in (text, *_HOST.findall(text))} & self._hosts.keys()
        if plan.base_url is not None:
            named |= {host_of(plan.base_url)} & self._hosts.keys()
        if domains:
            named |= {host for host in self._hosts if reaches(host, domains)}
        elif _is_open(plan):
            return None
        found = {self._hosts[host] for host in named}
        found |= {service for fault in plan.faults if (service := getattr(fault, "service", None))}
        return frozenset(found.union(*self._read_by(plan, texts)) & self._settings.services.keys())

    def _read_by(self, plan: Plan, texts: frozenset[str]) -> Iterator[set[str]]:
        """The services behind the channels and tools that the task names, and behind those that every task has."""
        settings = self._settings
        always = {settings.memory.channel, *(n for n, each in settings.channels.items() if plan.start and each.clock)}
        for name, services in self._channels.items():
            if name in always or any(text == name or f"'{name}'" in text or f'"{name}"' in text for text in texts):
                yield services
        offered = offered_to_agents(settings.tools) if plan.agent is not None or plan.chain is not None else {}
        for name, services in self._servers.items():
            if name in offered or name in texts:
                yield services

    def _behind(self, channel: ChannelSettings) -> set[str]:
        """The services that the document of a channel comes from."""
        found = {self._hosts.get(host_of(channel.url or ""))}
        found |= {name for _, server, _ in channel.tools for name in self._servers.get(server, ())}
        started = {name.lower(): name for name, each in self._settings.services.items() if each.command is not None}
        for _, text in channel.texts:
            for placeholder, target in targets_in(text):
                if placeholder == "folder":
                    found |= {started.get((target or "").lower())} if target else set(started.values())
                elif placeholder == "port":
                    found |= {self._hosts.get((target or "").lower())}
        return {name for name in found if name is not None}


def _is_open(plan: Plan) -> bool:
    """Whether a task without `allowed_domains` goes where only its run can tell."""
    urls = [url for step in plan.steps if (url := getattr(step, "url", None))]
    somewhere = any(host_of(urljoin(plan.base_url or "", url)) for url in urls)
    return plan.agent is not None or plan.chain is not None or not somewhere or any(map(_LATE_HOST.match, urls))


def _texts_of(plan: Plan) -> Iterator[str]:
    for step in plan.steps:
        yield from texts_of(step.model_dump(mode="json", exclude_defaults=True))
    for fault in plan.faults:
        yield from texts_of(fault.model_dump(mode="json"))
    yield from texts_of(plan.spec.model_dump(mode="json", exclude=_NAMES_NO_HOST, exclude_defaults=True))
