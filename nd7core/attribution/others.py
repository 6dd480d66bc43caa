"""Refusals that are somebody else's: the agent's own rules, the person, a remote host, the program, the superuser.

These look like nd7's denials and a grant mends none of them.  Each pattern is a form of message and not a message:
what a kind of server, permission system or tool always puts around the words that a kernel would use.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from nd7core.attribution.finding import names
from nd7core.attribution.gate import Gate
from nd7core.attribution.shell import Simple


class Other(NamedTuple):
    """Whose a refusal is, and how that is said."""

    owner: str
    reason: str


AGENT = Other("agent", "The agent's own rules or hooks refused the call before anything ran; nd7 had no part in it.")
PERSON = Other("person", "The person refused the call or interrupted it.")
PROTOCOL = Other("agent", "The agent's tool refused its own input; nothing reached the system.")
REMOTE = Other("remote", "The answer came from another machine or service; this session's rules were not asked.")
CONTAINER = Other(
    "remote", "The command ran in a container or on another machine, where this session's rules do not reach."
)
ROOT = Other("permissions", "It needs the superuser, with or without nd7.")
PROGRAM = Other("program", "The program's own permission system refused it.")
SANDBOX = Other("sandbox", "Another sandbox refused it, not this session's rules.")

_AGENT_START = re.compile(
    r"\s*(?:Error: )?(?:Permission to use [\w.-]+(?: with command)?\b.{0,4000}?\bhas been denied|"
    r".{0,4000}?\brequires? approval\b|Claude requested permissions to .{0,4000}?haven.t granted it yet|"
    r".{0,4000}?was blocked\. For security, Claude Code may only|(?:Pre|Post)ToolUse(?::\w{1,100})? hook\b|"
    r"\w{1,100} operation blocked by hook|(?:Hook|hook) .{0,200}? (?:denied|blocked|rejected)|"
    r"This tool call was (?:denied|blocked)|.{0,200}?blocked by (?:your|the user's|a) (?:permission|settings|"
    r"deny) (?:rule|setting)s?|.{0,200}?is (?:denied|not allowed) by (?:your|the) (?:permission settings|"
    r"permission rules|settings|rules)|File is in a directory that is denied by your permission settings)",
    re.DOTALL,
)
_AGENT_WORDS = (
    "has been denied",
    "approval",
    "granted it yet",
    "For security",
    "ToolUse",
    "hook",
    "blocked",
    "denied by",
    "not allowed by",
)
_PERSON_START = re.compile(
    r"\s*(?:The user doesn.t want to (?:proceed|take this action)|User rejected|\[Request interrupted by user|"
    r"The user (?:rejected|declined|denied|doesn.t want)|Interrupted by user|User (?:denied|declined|cancelled))"
)
_PROTOCOL_START = re.compile(
    r"\s*(?:<tool_use_error>|InputValidationError|File has not been read yet|File has been (?:modified|"
    r"unexpectedly modified)|String to replace not found|Found \d+ matches of the string|File does not exist|"
    r"EISDIR|Error: No such tool|No such tool available|File content \(|Path does not exist)"
)

_REMOTE = Gate(
    re.compile(
        r"permission denied,? (?:please try again|\((?:publickey|password|keyboard|gssapi|hostbased|none))|"
        r"\((?:publickey|password|keyboard-interactive|gssapi)[\w,-]*\)|permission denied for (?:table|relation|"
        r"schema|database|sequence|function|view|language|type|column|tablespace|foreign|procedure|large object|"
        r"materialized|user|role|bucket|resource|project)|permission denied to (?:create|set|alter|drop|copy|"
        r"terminate|[\w.-]+/|\w+\[?bot)|must be (?:owner|member) of|must be superuser to (?:execute|alter|create|"
        r"set|copy)|\b(?:HTTP|status(?: code)?|code|error|response|returned error|returned|"
        r"ERROR)[/:\s=]{0,3}(?:1\.[01]\s|2\s)?\(?(?:401|403|407|451)\b|\b(?:401|403|407) (?:Forbidden|"
        r"Unauthori[sz]ed|Client Error)|\bE40[13]\b|\bForbidden\b|\bunauthori[sz]ed\b|access token|invalid token|"
        r"bad credentials|authentication failed|authentication required|\bremote: (?!ssh: connect to )|"
        r"\bremote couldn.t |\(remote\)|"
        r"remote rejected|requested URL returned error|Resource not accessible|insufficient (?:scope|permissions|"
        r"privilege)|\(AccessDenied\)|<Code>AccessDenied|AccessDeniedException\b.{0,80}(?:not authorized|"
        r"operation)|not authorized to perform|UnauthorizedOperation|AccessDenied: Access Denied|PERMISSION_DENIED|"
        r"\w+server: (?:permission|access) denied|code: (?:PermissionDenied|Unauthenticated)|"
        r"PermissionDenied: 403|does not have (?!write |read )[\w.]+ (?:access|permission)|is not authorized|"
        r"lacks? the .{1,60}scope|required scope|Access denied for user|ERROR (?!200\d)\d{4} \((?:28000|42000|"
        r"HY000)\)|\bORA-\d{5}|\bSQLSTATE\b(?!\[HY000\] \[200\d\])|\bNOPERM\b|\b(?:S?FTP|SMB|LDAP|S3)\w*(?:Exception|"
        r"Error): |\bNOAUTH\b|\bWRONGPASS\b|"
        r"not authorized on \w+|NT_STATUS_ACCESS_DENIED|pull access denied|(?<![/\w])denied: (?:requested access|"
        r"permission|access)|"
        r"requested access to the resource is denied|Error from server|Error response from daemon|"
        r"rpc error: code = PermissionDenied|\bcode = PermissionDenied\b|(?-i:\bERROR:  (?=[a-z]))|"
        r"Username for 'http|could not read Username|could not read Password|Repository not found|Access denied by|"
        r"You do not have permission|Relay access denied|\b5[35]\d [15-7-]|\b550 |mail server|"
        r"Permission to \S+ denied to|not allowed to push|protected branch|pre-receive hook declined|rate limit|"
        r"\bIAM\b|\bCORS\b|X-Cache|Access-Control|robots\.txt|ssl certificate|certificate verify",
        re.IGNORECASE,
    ),
    "publickey password keyboard gssapi hostbased (none denied_for denied_to superuser_to be_owner be_member 401 "
    "403 407 451 forbidden unauthori token credential authenticat remote returned_error accessible insufficient "
    "accessdenied authorized server: code: permission·denied permissiondenied does_not_have scope for_user error_1 "
    "error_2 error_3 error_4 ora- sqlstate ftp smb ldap s3 noperm noauth wrongpass nt·status pull_access denied: "
    "requested_access "
    "from_server daemon rpc_error error:__ could_not_read username_for repository_not_found denied_by "
    "not_have_permission relay mail 55 53 allowed_to_push protected_branch pre-receive rate_limit iam cors x-cache "
    "access-control robots certificate try_again",
)
_ROOT = Gate(
    re.compile(
        r"must be (?:run as )?(?:superuser|root)|(?:are|be|as) (?:you )?root\b|root privileges?|"
        r"superuser privileges?|need to be root|only root|not root|requires? (?:root|superuser|administrator|"
        r"admin)|administrator privileges?|run (?:it |this )?(?:as|with) (?:root|sudo)|try (?:again )?(?:with|"
        r"using) sudo|not in the sudoers|password is required|Authentication failure|"
        r"Interactive authentication required|polkit|not privileged|CAP_[A-Z_]+|cap_net_raw|Must be root|"
        r"you cannot perform this operation unless you are root|don't have permission to capture|niceness|"
        r"set(?:ting)? priority|scheduling priority|modify limit|not (?:being )?setuid|effective uid is not 0",
        re.IGNORECASE,
    ),
    "root superuser admin sudo password authentication polkit privileged cap· setuid capture niceness priority "
    "modify_limit effective_uid",
)
_PROGRAM = Gate(
    re.compile(
        r"run again with the --allow-|(?:permission|access) denied by (?:policy|hook|administrator|rule)|"
        r"Requires \w+ access to|NotCapable|ERR_ACCESS_DENIED|AccessControlException|java\.security\.|--allow-fs-|"
        r"blocked by (?:Content Security|CORS)|SecurityManager|--permission flag|safe\.directory|dubious ownership|"
        r"policy\.xml|attempt to perform an operation not allowed by the security policy|restricted shell|"
        r": restricted\b|open_basedir restriction|not allowed by the (?:security )?policy|disable_functions|"
        r"protected-mode|bad permissions|bad ownership|UNPROTECTED PRIVATE KEY|are too open|noclobber|"
        r"cannot overwrite existing file|expected .{0,60}to (?:throw|equal|contain|match)|toThrow"
    ),
    "denied_by --allow- requires notcapable err·access accesscontrol java.security content_security cors "
    "securitymanager --permission safe.directory dubious policy.xml security_policy restricted open·basedir "
    "allowed_by disable·functions protected-mode bad_permissions bad_ownership unprotected too_open noclobber "
    "overwrite expected tothrow",
)
_SANDBOX = Gate(
    re.compile(
        r"\bavc: +denied|apparmor=\"DENIED\"|SELinux is preventing|^\s*ACCESS DENIED:|ACCESS VIOLATION SUMMARY|"
        r"^[FSPARC]: |flatpak|snap-confine|running landlock|landlock restrict|codex[- ]linux[- ]sandbox|"
        r"sandbox-runtime|firejail"
    ),
    "avc: apparmor selinux access_denied: access_violation f: s: p: a: r: c: flatpak snap-confine landlock codex "
    "sandbox-runtime firejail",
)
_CONTAINERS = names(
    "docker podman nerdctl lxc kubectl oc vagrant multipass limactl adb heroku flyctl fly distrobox toolbox "
    "systemd-nspawn"
)
_ENTERS = names("run exec shell ssh compose enter cp build push logs attach start up create console machine")
_REMOTE_TARGET = re.compile(r"^(?:[\w.+-]+@)?[A-Za-z0-9][\w.-]*:(?!//|\\)")


def agents_own(text: str) -> Other | None:
    """Whose a refusal is that the agent itself put in a tool's result; None for what a program printed."""
    head = text[:6000]
    if _PERSON_START.match(head):
        return PERSON
    if _PROTOCOL_START.match(head):
        return PROTOCOL
    if not any(map(head.__contains__, _AGENT_WORDS)):
        return None
    first = head.split("\n", 1)[0] if "\n" in head else head
    if _AGENT_START.match(first) or ("has been denied" in head and _AGENT_START.match(head)):
        return AGENT
    return None


# A refusal of the program's own: a name, the words, and a sentence that names neither a file nor an error's number.
_OWN_WORDS = re.compile(
    r"^\W*(?:Uncaught |E\s+)?(?:(?:[\w.-]+: ){0,3}(?:[Pp]ermission|[Aa]ccess) denied|"
    r"(?:\w+\.)*PermissionDenied): (?P<prose>[A-Za-z][^/\\'\"\[\]@~:=]*)$"
)
_OF_THE_SYSTEM = re.compile(
    r"\b(?:open\w*|creat\w*|writ\w*|read\w*|files?|director\w+|folders?|sockets?|bind\w*|connect\w*|listen\w*|"
    r"exec\w*|spawn\w*|mkdir|unlink|renam\w*|lock\w*|stat|errno|error|code|port|pid)\b",
    re.IGNORECASE,
)


def _own_words(line: str) -> bool:
    if "enied: " not in line:
        return False
    match = _OWN_WORDS.match(line)
    prose = match["prose"] if match else ""
    return len(prose.split()) > 2 and not _OF_THE_SYSTEM.search(prose)


def of_line(line: str) -> Other | None:
    """Whose a refusal on one line is, where its form tells; None where it may be the kernel's."""
    if _own_words(line):
        return PROGRAM
    if _SANDBOX.search(line):
        return SANDBOX
    if _PROGRAM.search(line):
        return PROGRAM
    if _REMOTE.search(line):
        return REMOTE
    if _ROOT.search(line):
        return ROOT
    return None


OVER_SSH = names("ssh sftp ansible ansible-playbook mosh gcloud")
"""Programs that run something on another machine through the ssh of this one."""
_SSH_OPTIONS = names("-B -b -c -D -E -e -F -I -i -J -L -l -m -O -o -P -p -Q -R -S -W -w")


def ssh_words(simple: Simple) -> list[str]:
    """The host and the remote command of ssh: its words without options and what they take."""
    words = list(simple.words)
    found: list[str] = []
    while words:
        word = words.pop(0)
        if found:
            found.append(word)  # behind the host everything is the remote command's
        elif word[:1] != "-":
            found.append(word)
        elif word in _SSH_OPTIONS and words:
            words.pop(0)
    return found


_PROGRESS = re.compile(r"remote: (?:(?:Enumerating|Counting|Compressing|Resolving|Processing) |Total \d|\s*$)")
"""What git passes on of the other side's work: it refused nothing."""


def elsewhere_in(lines: Sequence[str]) -> Other | None:
    """Whose a refusal that names nothing is, when another line of the output tells by its form."""
    for line in lines[:60]:
        if _REMOTE.search(line) and not _PROGRESS.match(line):
            return REMOTE
        if _ROOT.search(line):
            return ROOT
    return None


def elsewhere(simple: Simple) -> bool:
    """Whether a command runs its program in a container or on another machine."""
    if simple.name == "ssh":
        return len(ssh_words(simple)) > 1
    if simple.name in _CONTAINERS:
        return any(word in _ENTERS for word in simple.words[:4])
    if simple.name in ("ansible", "act", "gcloud", "mosh", "sftp", "aws-vault"):
        return simple.name != "gcloud" or "ssh" in simple.words
    return False


def remote_end(simple: Simple) -> str:
    """ "to" where a copy goes to another machine, "from" where it comes from one, "" otherwise."""
    if simple.name not in ("scp", "rsync", "rclone"):
        return ""
    bare = [word for word in simple.words if word[:1] != "-"]
    if bare and (_REMOTE_TARGET.match(bare[-1]) or "::" in bare[-1] or bare[-1].startswith("rsync://")):
        return "to"
    if any(_REMOTE_TARGET.match(word) or "::" in word or word.startswith("rsync://") for word in bare[:-1]):
        return "from"
    return ""
