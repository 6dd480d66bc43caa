"""Holds what a line says against the policy, the ordinary permissions and the kernel that printed it."""

from __future__ import annotations

import re
from posixpath import dirname

from nd7core.attribution import others, pathless, paths
from nd7core.attribution import special as specials
from nd7core.attribution.failure import BASH_TOOLS, READING_TOOLS, Failure
from nd7core.attribution.finding import Finding, Told, names
from nd7core.attribution.forms import READERS
from nd7core.attribution.guess import destination
from nd7core.attribution.judged import Judged, none, replace_evidence
from nd7core.attribution.look import Look
from nd7core.attribution.rules import Rules
from nd7core.attribution.shell import Simple, place
from nd7core.attribution.verdict import Evidence, Operation, Remedy
from nd7core.attribution.writing import lists_only, rewrites, wants_to_write

# Which errors a sandbox of this kernel answers with where a file is meant.
_OF_FILES = {"linux": frozenset({"EACCES", "EROFS", "ANY", ""}), "darwin": frozenset({"EPERM", "EROFS", "ANY", ""})}
_MOST_FOLDERS, _LONGEST = 32, 1024  # folders of one command that are asked about, and how long one may be
_MODES = re.compile(r"[\"']\s*,\s*[\"'](?P<mode>[rwax+bt]{1,3})[\"']")


class Judge:
    """Judges the findings of one failure."""

    def __init__(
        self, failure: Failure, rules: Rules, home: str, commands: tuple[Simple, ...], look: Look | None
    ) -> None:
        self.failure = failure
        self.rules = rules
        self.home = home
        self.commands = commands
        self.look = look
        self.platform = failure.platform
        self.bash = failure.tool in BASH_TOOLS
        self.cwd = failure.cwd or failure.project
        self.otherwise: others.Other | None = None  # whose a bare refusal is by another line of the output
        self.sandbox_errors = _OF_FILES[self.platform]

    # ------------------------------------------------------------------ resolving

    def folder_of(self, program: str, printed: str) -> str:
        """Where the command that printed a relative path ran: the one of that name that the policy would refuse it.

        A command may run the same program in several folders (`tar cf` here, `tar xf` there); ordinary permissions
        seldom refuse what lies in the project, so the policy tells which.
        """
        program = "git" if program in _TOLD_BY_GIT else program
        own = [simple for simple in self.commands if simple.name == program and simple.cwd]
        naming = [
            simple
            for simple in self.commands
            if printed in simple.words or any(target == printed for _, target in simple.redirects)
        ]
        # A command may go down and down without end, and each folder is asked about from the root on.
        folders = [
            folder for folder in dict.fromkeys(simple.cwd for simple in (*own, *naming)) if len(folder) < _LONGEST
        ]
        for folder in folders[:_MOST_FOLDERS]:
            if self.rules.refuses("write", paths.resolve(printed, folder, self.home, self.platform)):
                return folder
        if own or naming:
            return (own or naming)[0].cwd or self.cwd
        return (self.commands[-1].cwd or self.cwd) if self.commands else self.cwd

    def resolve(self, printed: str, program: str = "") -> str:
        """A printed path as the command meant it."""
        if printed.startswith("file://"):
            printed = printed[7:]
        folder = "" if printed[:1] == "/" else self.folder_of(program, printed)
        return self._behind_links(paths.resolve(printed, folder, self.home, self.platform))

    def _behind_links(self, path: str) -> str:
        """Where a path leads that the rules would allow as it is spelled: the kernel judges what a link leads to."""
        real = self.look.real(path) if self.look and path.startswith("/") else None
        if real and real != path:
            for doing in ("write", "read"):
                if self.rules.refuses(doing, real) and not self.rules.refuses(doing, path):
                    return real
        return path

    def shown(self, printed: str, resolved: str) -> str:
        """The target as it is told: absolute, in the printed spelling where that was absolute already."""
        if printed[:1] in ("/", "$"):
            typed = place(printed, "", self.home)
            return typed if paths.canonical(typed, self.platform) == resolved else resolved
        return resolved

    # ------------------------------------------------------------------ the kinds

    def others(self, line: str, other: others.Other) -> Judged:
        """A line that its form gives to somebody else."""
        return Judged(False, "other", "likely", "other", "", (), "not-nd7", "", other.reason, other.owner, line.strip())

    def special(self, lines: list[str], index: int, worth_asking: bool) -> Judged | None:
        """A refusal that names no path: nested sandboxes and the like."""
        line = lines[index]
        found = specials.of_line(line) if worth_asking else None
        if found is None:
            return self._mac_setuid(line) if self.platform == "darwin" else None
        target = specials.process(line) if found.operation == "signal" else ""
        if target == "pid 1":
            return self.others(line, others.ROOT)
        return Judged(
            True, "other", "likely", found.operation, target, (), "cannot-grant", "", found.reason, "", line.strip()
        )

    def _mac_setuid(self, line: str) -> Judged | None:
        if "not permitted" not in line:
            return None
        said = [part.strip().rsplit("/", 1)[-1] for part in line.split(":")]
        ran = {simple.name for simple in self.commands} | set(self.failure.command.split())
        for word in said:
            if word in specials.MAC_SETUID and not ran.isdisjoint((word, specials.MAC_SETUID[word])):
                return self._setuid(line, specials.MAC_SETUID[word], word)
        return None

    def _setuid(self, line: str, target: str, *also: str) -> Judged:
        reason = "Set-uid programs cannot be started in a session; run it in a terminal of your own."
        return Judged(True, "other", "likely", "execute", target, also, "cannot-grant", "", reason, "", line.strip())

    def finding(self, finding: Finding) -> Judged:
        """The verdict on one finding."""
        judged = self._by_kind(finding)
        judged.errno = finding.errno
        return judged

    def _by_kind(self, finding: Finding) -> Judged:
        if finding.kind == "network":
            return pathless.of_network(self, finding)
        if finding.kind == "socket":
            return pathless.of_socket(self, finding)
        if finding.kind == "signal":
            return pathless.of_signal(finding)
        if finding.kind == "other":
            return pathless.of_system(self, finding)
        if finding.kind == "path":
            return self.path(finding)
        return pathless.of_nothing(self, finding)

    def _as_named(self, printed: str) -> str:
        """A printed path without the rest of a translated sentence, where the command names what it starts with."""
        if printed.isascii() and " " not in printed:
            return printed
        for simple in self.commands:
            for word in simple.words:
                rest = printed[len(word) :] if len(word) > 2 and word[0] in "/~" and printed.startswith(word) else ""
                if rest and (rest[0] == " " or not rest[0].isascii()) and " " in rest and "/" not in rest:
                    return word
        return printed

    def path(self, finding: Finding) -> Judged:
        finding.paths = tuple(map(self._as_named, finding.paths))
        resolved = [(printed, self.resolve(printed, finding.program)) for printed in finding.paths]
        operation = self._operation(finding, resolved)
        if finding.errno == "EROFS" and operation == "read":
            operation = "write"  # nothing that only reads is answered so
        if finding.errno == "EXDEV":
            return self._crossing(finding, resolved)
        first_shown = self.shown(*resolved[0])
        if self.platform == "darwin" and finding.errno == "EPERM" and operation == "execute":
            reason = "The session's profile does not let this program be started; a grant is for writing."
            line = finding.line.strip()
            return Judged(True, "path", "likely", "execute", first_shown, (), "cannot-grant", "", reason, "", line)
        if self.platform == "darwin" and finding.errno == "EPERM" and _SETUID_PROGRAM.fullmatch(resolved[0][1]):
            return self._setuid(finding.line, first_shown)
        if finding.errno == "EPERM" and any(simple.name in pathless.SOCKET_PROGRAMS for simple in self.commands):
            return pathless.of_socket(self, finding)
        if finding.errno not in self.sandbox_errors:
            word = "EPERM" if self.platform == "darwin" else "EACCES"
            reason = f"For files a sandbox of this system answers with {word}; this is an ordinary refusal."
            return none(finding, "permissions", reason, first_shown, operation=operation or "other")
        refused: list[tuple[str, str, Operation]] = []
        for printed, path in resolved:
            if not path.startswith("/"):
                continue
            doing = self._refused(path, operation)
            if doing:
                refused.append((printed, path, doing))
        if not refused:
            if self.platform == "darwin" and finding.errno == "EPERM" and resolved[0][1].startswith("/dev/"):
                reason = "Devices, and descriptors as files, are closed to a session; no grant opens one."
                line = finding.line.strip()
                return Judged(True, "path", "likely", "read", first_shown, (), "cannot-grant", "", reason, "", line)
            return self._allowed(finding, resolved, operation)
        # Of a rename or copy it is the last that could not be made.
        printed, path, doing = refused[-1] if len(resolved) > 1 and operation != "read" else refused[0]
        return self._kernel_path(finding, printed, path, doing, tuple(self.shown(p, q) for p, q, _ in refused))

    # ------------------------------------------------------------------ helpers of `path`

    def _operation(self, finding: Finding, resolved: list[tuple[str, str]]) -> Told:
        if self.failure.tool in READING_TOOLS:
            return "read"
        found = [path for _, path in resolved]
        if finding.operation:
            reads = finding.operation == "read"
            written = reads and wants_to_write(self.commands, finding, found, self.home, self.platform)
            return "write" if written else finding.operation
        for printed, path in resolved:
            for simple in self.commands:
                for operator, target in simple.redirects:
                    if place(target, simple.cwd, self.home) == place(printed, simple.cwd, self.home):
                        return "read" if operator == "<" else "write"
            for simple in self.commands:
                for text in (*simple.words, simple.body):
                    at = text.find(printed) if len(text) < 20_000 else -1
                    if at > 0 and text[max(0, at - 4) : at].rstrip(" \"'").endswith(">"):
                        return "write"  # awk's own redirection
                    if at >= 0 and (mode := _MODES.match(text, at + len(printed))):
                        return "read" if set(mode["mode"]) <= set("rbt") else "write"
                    if at >= 0 and path and re.search(r"\.read\w*\(|readFile|file_get_contents", text):
                        return "read"
        if wants_to_write(self.commands, finding, found, self.home, self.platform):
            return "write"
        if finding.program in READERS:
            removes = any(rewrites(simple) for simple in self.commands if simple.name == finding.program)
            return "" if removes and not lists_only(finding) else "read"
        return "read" if self._pages(finding) else ""

    def _pages(self, finding: Finding) -> bool:
        """Whether a line starts with a path that only readers were given: pagers do not tell their own name."""
        printed = finding.paths[0]
        given = [simple.name for simple in self.commands if printed in simple.words]
        return bool(given) and READERS.issuperset(given) and finding.line.startswith(f"{printed}:")

    def _refused(self, path: str, operation: Told) -> Told:
        """What of an operation the policy refuses, "" where it lets it through."""
        if self.rules.hidden(path):
            return "write" if operation == "write" else "execute" if operation == "execute" else "read"
        if operation in ("read", "execute"):
            return ""
        return "write" if self.rules.refuses("write", path) else ""

    def _allowed(self, finding: Finding, resolved: list[tuple[str, str]], operation: Told) -> Judged:
        printed, path = resolved[0]
        target = self.shown(printed, path)
        doing: Operation = operation or "other"
        said = f"The policy lets this session {operation or 'use'} {target}."
        if self.platform == "linux" and printed[:1] not in "/~$" and (finding.errno == "EROFS" or doing == "write"):
            # Relative to a folder that only the program knows: the one where the command has it write.
            meant = destination(self.commands, self.rules, self.home, self.platform)
            if meant:
                return replace_evidence(self._kernel_path(finding, meant, meant, "write", (meant,)))
        git = next((simple for simple in self.commands if simple.name == "git"), None)
        own = finding.program in ("fatal", "error", "git") and "credential" not in finding.line
        if git and own and not self.rules.refuses("write", git.cwd or self.cwd or "/"):
            reason = "The repository is writable for this session; ordinary permissions in it refuse."
            return none(finding, "permissions", reason)
        if finding.errno == "":
            return none(finding, "program", f"{said} The program failed for another reason.", target, said, doing)
        if finding.errno == "EROFS":
            return none(
                finding, "sandbox", f"{said} The file system itself is mounted read-only there.", target, said, doing
            )
        seen = self.look.at(path, operation or "write") if self.look and path.startswith("/") else None
        why = f" ({seen.why})" if seen and seen.why else ""
        refused = f"Ordinary permissions refused it{why}."
        if seen and seen.allowed:
            refused = "So do the permissions that it has now; then they may have been others."
        return none(finding, "permissions", f"{said} {refused}", target, said, doing)

    def _crossing(self, finding: Finding, resolved: list[tuple[str, str]]) -> Judged:
        outside = [(p, q) for p, q in resolved if q.startswith("/") and self.rules.refuses("write", q)]
        first = self.shown(*resolved[0])
        if self.platform == "linux" and outside:
            also = tuple(self.shown(*pair) for pair in (*outside, *resolved))
            reason = "Linking or renaming between folders of different rights is refused (EXDEV); copy it instead."
            line = finding.line.strip()
            return Judged(True, "path", "likely", "write", also[0], also, "cannot-grant", "", reason, "", line)
        return none(finding, "program", "The two paths are on different file systems.", first, operation="write")

    def _kernel_path(
        self, finding: Finding, printed: str, path: str, doing: Operation, also: tuple[str, ...]
    ) -> Judged:
        shown = self.shown(printed, path)
        seen = self.look.at(path, doing) if self.look else None
        if self.rules.never(path):
            instead = (
                "copy what is needed into the project yourself"
                if doing == "read"
                else "do it in a terminal of your own"
            )
            reason = f"{shown} is closed to every session ({doing}), whatever is granted; {instead}."
            return self._kernel(
                finding, doing, shown, also, "cannot-grant", "", reason, path, seen is None or seen.allowed is not False
            )
        if self.platform == "linux" and paths.inside(path, "/dev"):
            if path in _OPEN_DEVICES:
                return self._kernel(finding, doing, shown, also, "cannot-grant", "", _DEVICE, path, True)
            return none(
                finding, "permissions", "The device's own permissions refuse this user.", shown, operation=doing
            )
        # A mount answers before the permissions do, so this error tells nothing of them.
        mounted = self.platform == "linux" and finding.errno == "EROFS" and not path.startswith(("/proc/", "/sys/"))
        owned = seen is None and not mounted and paths.system_owned(path, self.home, self.platform)
        if (seen is not None and seen.allowed is False and seen.exists) or owned:
            why = seen.why if seen and seen.why else "it belongs to the system"
            reason = f"Ordinary permissions refuse {shown} as well ({why}), so no grant would help."
            return none(finding, "permissions", reason, shown, "The policy does not allow it either.", doing)
        target, folder = paths.meant(path)
        if folder and target != dirname(path) and not path.endswith(paths.PLAIN_SUFFIXES):
            shown = target  # the file that the person knows, not the temporary name beside it
        worked_in = any(simple.cwd == path for simple in self.commands)
        known = seen.is_folder if seen and seen.exists else None
        grant = paths.proposal(path, self.home, is_folder=worked_in or known)
        if seen and seen.exists and not seen.is_folder and not folder and not _REPLACES.search(finding.line):
            grant = path
        named = self._named_above(path)
        if named:
            grant = named
            also = (*also, named)
        elif paths.is_shared(grant, self.home) and (deeper := paths.deepest(finding.line, path)):
            grant = deeper
        printed_meant = target if target != dirname(path) else shown
        as_printed = (
            (printed,) if printed[:1] not in ("/", "~", "$") and finding.line and printed in finding.line else ()
        )
        beside = (path, dirname(path)) if folder else ()
        also = tuple(dict.fromkeys((*also, printed_meant, *beside, *as_printed)))
        if self.bash:
            reason = (
                f"The session's rules let nothing write to {shown}. `nd7 allow {grant}` opens it to the next command."
            )
            return self._kernel(
                finding, doing, shown, also, "grant", grant, reason, path, seen is None or seen.allowed is not False
            )
        reason = f"{self.failure.tool} runs under the rules the session started with: restart it wider with {grant}."
        return self._kernel(
            finding, doing, shown, also, "restart-wider", grant, reason, path, seen is None or seen.allowed is not False
        )

    def _named_above(self, path: str) -> str:
        """The folder that the command itself names above a refused path: `rm -rf X`, `cp a X`; "" for none."""
        best = ""
        for simple in self.commands:
            for word in simple.words:
                if word[:1] not in "/~." or len(word) > 1000:
                    continue
                folder = paths.canonical(place(word, simple.cwd, self.home), self.platform)
                if folder == path or not paths.inside(path, folder) or len(folder) <= len(best):
                    continue
                if not paths.is_shared(folder, self.home) and self.rules.refuses("write", folder):
                    best = folder
        return best

    def _kernel(
        self,
        finding: Finding,
        doing: Operation,
        shown: str,
        also: tuple[str, ...],
        remedy: Remedy,
        grant: str,
        reason: str,
        path: str,
        alone: bool,
    ) -> Judged:
        evidence: Evidence = "matched" if finding.errno and alone else "likely"
        recorded = self.failure.recorded
        if path in recorded or shown in recorded or f"{path.rpartition('/')[0]}/" in recorded:
            evidence = "recorded"
        contradiction = "" if alone else "Ordinary permissions would refuse it as well."
        return Judged(
            True, "path", evidence, doing, shown, also, remedy, grant, reason, "", finding.line.strip(), contradiction
        )

    # ------------------------------------------------------------------ nothing named


_TOLD_BY_GIT = names("fatal error warning hint")
"""What git's lines start with; a program of that name there is not."""
# Devices that anyone may use outside a session.
_OPEN_DEVICES = frozenset({"/dev/fuse", "/dev/net/tun"})
_DEVICE = "Devices are closed to a session, and a grant opens folders, not devices."
_SETUID_PROGRAM = re.compile(rf"/(?:usr/)?s?bin/(?:{'|'.join(sorted(specials.MAC_SETUID))})")
_REPLACES = re.compile(r"remov|unlink|renam|mov|replac|temporary|mkstemp|lock", re.IGNORECASE)
