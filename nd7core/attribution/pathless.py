"""Verdicts on refusals that name no path: connections and listeners, sockets, signals, and what names nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from nd7core.attribution import forms, network, others, paths
from nd7core.attribution import special as specials
from nd7core.attribution.finding import Finding, names
from nd7core.attribution.guess import guessed, only_inside
from nd7core.attribution.judged import Judged, none, replace_evidence, replace_kind, replace_network, replace_paths
from nd7core.attribution.verdict import Evidence, Remedy

if TYPE_CHECKING:
    from nd7core.attribution.judge import Judge

_BESIDE = re.compile(r"\((\d{1,3}(?:\.\d{1,3}){3})\)")
# Programs that do nothing that is not the superuser's.
_ADMINISTRATION = names(
    "passwd chpasswd useradd usermod userdel groupadd groupmod groupdel gpasswd adduser addgroup deluser visudo "
    "mount umount swapon swapoff modprobe insmod rmmod iptables ip6tables nft ip ifconfig route sysctl hostname "
    "date chroot losetup fdisk parted mkfs fsck shutdown reboot systemctl service dpkg apt apt-get yum dnf apk "
    "pacman setcap auditctl"
)
_SIMPLE = forms.READERS | names("touch mkdir rm rmdir mv cp chmod chown ln truncate split unlink sed")
SOCKET_PROGRAMS = names(
    "tmux screen byobu zellij dtach abduco ssh-agent ssh-add gpg gpg-agent emacs emacsclient dbus-send"
)
_SERVICES = SOCKET_PROGRAMS | names(
    "gdbus busctl notify-send gsettings dconf secret-tool systemctl loginctl docker podman nerdctl"
)
_KILLERS = names("kill killall pkill skill fuser")
_SOCKETS = "Sockets of this machine are closed to a session; run what needs them in a terminal of your own."


def of_signal(finding: Finding) -> Judged:
    reason = "Only processes of this session can be signalled."
    return Judged(
        True,
        "signal",
        "likely",
        "signal",
        specials.process(finding.line),
        (),
        "cannot-grant",
        "",
        reason,
        "",
        finding.line.strip(),
    )


def of_system(judge: Judge, finding: Finding) -> Judged:
    """The kernel was asked about itself: macOS profiles refuse that, Landlock and seccomp's filter do not."""
    if judge.platform == "darwin" and finding.errno in judge.sandbox_errors:
        reason = "The session's profile does not let programs ask or set that of the kernel."
        line = finding.line.strip()
        return Judged(True, "other", "likely", "other", "", (), "cannot-grant", "", reason, "", line)
    return none(finding, "permissions", "Changing that needs the superuser, with or without nd7.")


def of_network(judge: Judge, finding: Finding) -> Judged:
    if finding.errno in ("EPERM", "ANY", "") and (path := network.unix(judge.commands)) is not None:
        return of_socket(judge, replace(finding, kind="socket", errno="EPERM", paths=(path,) if path else ()))
    host, port = finding.host, finding.port
    if host and port and host not in finding.line and judge.rules.connects(host, port):
        host, port = "", 0  # of a line nearby, which tells of something that went through
    if not port and finding.errno == "EPERM" and any(simple.name in _SERVICES for simple in judge.commands):
        return of_socket(judge, replace(finding, kind="socket"))
    if port and not host:
        asked, at = network.from_command(judge.commands, finding.program)
        host = asked if at in (port, 0) else ""
    if not port:
        given, port = network.from_command(judge.commands, finding.program, listening=finding.direction == "listen")
        host = host or given
    if not port and len(judge.failure.recorded) == 1 and ":" in judge.failure.recorded[0]:
        # The broker saw which address the call was refused.
        host, _, number = judge.failure.recorded[0].rpartition(":")
        port = int(number) if number.isdigit() and int(number) < 65536 else 0
    if not port and judge.otherwise:
        return none(finding, judge.otherwise.owner, judge.otherwise.reason, operation="network")
    target = network.shown(host, port)
    if host and not port:
        free = (f"{host}:0", f"[{host}]:0")  # any free port
        target = next((name for name in free if name in finding.line), target)
    if ":" in host and f"[{host}]" in finding.line:
        target = f"[{host}]:{port}" if port else target  # as it was printed
    beside = _BESIDE.search(finding.line)
    also = tuple(network.shown(name, port) for name in (beside[1] if beside else "", host) if name and port)
    given = network.from_command(judge.commands, finding.program)[0]
    if host[:1].isdigit() and port and given and not given[:1].isdigit():
        also = (network.shown(given, port), *also)  # what was asked for, where its address is printed
    if host:
        also = (*also, host)
    if finding.errno == "EACCES" and judge.platform == "darwin":
        return none(
            finding,
            "permissions",
            "On macOS a sandbox answers with EPERM; this is an ordinary refusal.",
            target,
            operation="network",
        )
    if finding.errno in ("EROFS", "EXDEV"):
        return of_nothing(judge, finding)
    if finding.direction == "listen":
        if port and judge.rules.binds(host, port):
            return none(finding, "program", "The policy lets this port be listened on.", target, operation="network")
        if 0 < port < 1024 and judge.platform == "linux" and finding.errno == "EACCES":
            reason = "Ports below 1024 need the superuser; the policy would refuse it as well."
            return none(finding, "permissions", reason, target, operation="network")
        reason = (
            f"The session may listen on no port{f' ({target})' if target else ''}; the rules know no wider network."
        )
        return _closed(judge, finding, target, also, reason, matched=bool(port))
    if port and judge.rules.connects(host, port):
        said = f"The policy lets connections to port {port} out."
        return none(
            finding, "remote", f"{said} Something else refused it.", target, contradiction=said, operation="network"
        )
    but = f", not {target}" if target else ""
    reason = f"Only HTTPS (port 443) and DNS go out{but}; the rules know no wider network."
    return _closed(judge, finding, target, also, reason, matched=bool(port) and finding.errno != "")


def _closed(
    judge: Judge, finding: Finding, target: str, also: tuple[str, ...], reason: str, *, matched: bool
) -> Judged:
    # By the port alone: a program prints the name that it was given, the record holds the address.
    port = target.rpartition(":")[2]
    recorded = any(entry == target or entry.rpartition(":")[2] == port for entry in judge.failure.recorded if port)
    evidence: Evidence = "recorded" if recorded else "matched" if matched else "likely"
    line = finding.line.strip()
    return Judged(True, "network", evidence, "network", target, also, "cannot-grant", "", reason, "", line)


def of_socket(judge: Judge, finding: Finding) -> Judged:
    printed = finding.paths[0] if finding.paths else network.unix(judge.commands) or ""
    printed = printed.removeprefix("unix://")
    path = judge.resolve(printed, finding.program) if printed else ""
    target = judge.shown(printed, path) if printed else ""
    sandbox = finding.errno in ("EPERM", "ANY") or (judge.platform == "darwin" and finding.errno != "EACCES")
    if not path:
        if sandbox or judge.platform == "linux":
            return Judged(
                True, "socket", "likely", "ipc", "", (), "cannot-grant", "", _SOCKETS, "", finding.line.strip()
            )
        return none(finding, "permissions", "On macOS a sandbox answers with EPERM.", operation="ipc")
    if sandbox:
        return Judged(
            True, "socket", "likely", "ipc", target, (), "cannot-grant", "", _SOCKETS, "", finding.line.strip()
        )
    if judge.platform == "linux" and judge.rules.refuses("write", path):
        listening = finding.direction == "listen"
        if listening and not paths.system_owned(path, judge.home, judge.platform):
            return replace(judge.path(replace_kind(finding, "write")), operation="ipc")
        if judge.rules.hidden(path):
            return Judged(
                True, "socket", "likely", "ipc", target, (), "cannot-grant", "", _SOCKETS, "", finding.line.strip()
            )
    return none(finding, "permissions", "The socket's own permissions refuse this user.", target, operation="ipc")


_NAMED = re.compile(
    r"(?:\b(?:file|find|open\w*|read\w*|load\w*|access|stat|directory|folder)|--)\s+(?:file\s+)?"
    r"(?P<name>[\w.@%+-]+)(?=[:\s]|$)|\b(?:on|of|to|for)\s+(?P<last>[\w.@%+-]+)(?=:\s)"
)


def _argument(judge: Judge, line: str) -> str:
    """A name without a slash behind a word for files, where the command was given exactly that; "" for none."""
    for match in _NAMED.finditer(line[:1000]):
        name = match["name"] or match["last"]
        if len(name) > 1 and any(name in simple.words for simple in judge.commands):
            return name
    return ""


def of_nothing(judge: Judge, finding: Finding) -> Judged:
    """A refusal that names nothing: what the command names and the policy refuses is the best guess."""
    if finding.errno == "EPERM" and any(simple.name in _KILLERS for simple in judge.commands):
        return of_signal(finding)
    if finding.errno == "EPERM" and (talking := network.talks(judge.commands)):
        return of_network(judge, replace_network(finding, talking))
    if finding.errno not in judge.sandbox_errors or finding.errno == "EXDEV":
        reason = "This error, without a path, is not one that this system's sandbox answers with."
        return none(finding, "permissions", reason)
    if finding.program in _ADMINISTRATION:
        return none(finding, others.ROOT.owner, others.ROOT.reason)
    if judge.otherwise:
        return none(finding, judge.otherwise.owner, judge.otherwise.reason)
    if argument := _argument(judge, finding.line):
        return judge.path(replace_paths(finding, argument))
    guess = guessed(judge.commands, judge.rules, judge.home, judge.platform)
    if guess:
        return replace_evidence(judge.path(replace_paths(finding, guess)))
    talking = network.talks(judge.commands) if finding.errno in ("EACCES", "ANY") else ""
    if talking:
        return of_network(judge, replace_network(finding, talking))
    given = network.argument(judge.commands) if finding.errno in ("EACCES", "ANY") else None
    if given and not judge.rules.connects(*given):
        return of_network(judge, replace(replace_network(finding, "connect"), host=given[0], port=given[1]))
    git = next((simple for simple in judge.commands if simple.name == "git"), None)
    own = finding.program in ("fatal", "error", "git") and "credential" not in finding.line
    ordinary = finding.errno not in ("EROFS", "EPERM")  # neither is an answer of ordinary permissions
    if git and own and ordinary and not judge.rules.refuses("write", git.cwd or judge.cwd or "/"):
        reason = "The repository is writable for this session; ordinary permissions in it refuse."
        return none(finding, "permissions", reason)
    if finding.errno in ("EACCES", "ANY") and judge.platform == "linux" and only_inside(judge.commands, _SIMPLE):
        reason = "All that the command names lies where the policy lets it be used; ordinary permissions refused it."
        return none(finding, "permissions", reason)
    if finding.errno == "":
        return none(finding, "program", "Nothing that the command names is refused by the policy.")
    reason = "Refused, but what is not said: look for a path outside the project that the program writes to."
    remedy: Remedy = "grant" if judge.bash else "restart-wider"
    return Judged(True, "unknown", "likely", "write", "", (), remedy, "", reason, "", finding.line.strip())
