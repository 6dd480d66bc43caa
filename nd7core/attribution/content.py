"""Whether a line tells what happened to this command, or is text that the command merely showed.

`cat old.log`, a search in source code, a test's title and an echo print the same words as a refusal.  A command that
only reads is believed for what it says in its own name; of a container or another machine nothing is this session's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from posixpath import basename

from nd7core.attribution import network, others
from nd7core.attribution.failure import Failure
from nd7core.attribution.finding import Finding, names
from nd7core.attribution.forms import READERS, program_of, shell_script
from nd7core.attribution.gate import Gate
from nd7core.attribution.paths import inside, looks_like_path
from nd7core.attribution.rules import home_of
from nd7core.attribution.shell import WRAPPERS, Simple, place

_SHELLS = names("bash sh zsh dash ash ksh fish busybox")
_NEUTRAL = names(
    "cd pushd popd true false : echo printf exit sleep pwd date export set unset shopt ulimit wait test [ return"
)
_SHOWERS = READERS | names(
    "sed journalctl man info tldr history bc expr seq env printenv pbpaste xclip perldoc pydoc help type which "
    "whereis jless xmllint pygmentize glow mdcat gunzip lsof who last ps uptime pgrep"
)
_LISTERS = names(
    "ls dir stat du wc cd find fd tree realpath readlink md5sum sha256sum cksum test exa eza lsd file which type ps "
    "pgrep"
)
# They read source text and say what they think of it; a file that is closed to them they name.
_LINTERS = names(
    "shellcheck semgrep eslint tsc vue-tsc mypy pyright pylint ruff flake8 bandit rubocop golangci-lint staticcheck "
    "hadolint yamllint actionlint stylelint markdownlint vale codespell checkov tflint clippy clang-tidy cppcheck "
    "phpstan psalm credo detekt ktlint swiftlint spectral sqlfluff ansible-lint oxlint biome"
)
_GIT_SHOWS = names("log diff show blame grep shortlog reflog cat-file ls-files status describe rev-list whatchanged")
_GH_SHOWS = names("view diff api browse")
_OWN_OF_GIT = ("fatal", "error", "warning", "git", "hint", "ssh")
_PASSED = Gate(
    re.compile(
        r"^\s*(?:[✓✔√☑]|ok \d|ok\s|PASS(?:ED)?\b|--- PASS|\[ +(?:OK|RUN|FAILED) +\]|--- FAIL: \w+ \(|"
        r"test .{1,300} \.\.\. ok\b|\.\.\. ok$|# (?:SKIP"
        r"|TODO|Subtest))|\.\.\. ok$|\bPASSED\b|\w › \w|^\s*[✕✗×✖].*\(\d+(?:\.\d+)? ?m?s\)$|"
        r"^\s*(?:FAIL|❯|[✕✗×✖]|not ok \d+ -)\s+\S+ > .* > [^'\"]*$"
    ),
    "ok pass ✓ ✔ √ ☑ › ✕ ✗ × ✖ ❯ fail run_ skip todo subtest",
)
_COMPARED = Gate(
    re.compile(
        r"^\s*E\s+assert\b|^\s*(?:E\s+|\d+: +)?(?:[-+]\s*)?(?:Expected|Received|expected|received|actual|Actual|got|"
        r"want|"
        r"wanted|have)\b[^:\n]{0,60}:|^\s*(?:left|right): |\bto (?:throw|equal|match|contain)\b|\bAssertionError\b|"
        r"\braise_error\b|nothing was raised|\b(?:raises?|rescues?|catches) (?:[\w.:]*Errno::\w+|\w+Error)\b|"
        r"\bwantErr\b|\bwant err\w*\b|\bassert(?:Raises|_raises|Equal|That)?\b.{0,200}==|DID NOT RAISE|pytest\.raises|"
        r"\bgot\b.{1,300}[,;] ?want(?:ed)?\b(?! (?:nil|no error|<nil>))|\bwant(?:ed)? (?!nil|no error|"
        r"<nil>).{1,300}[,;] ?(?:but )?got\b"
    ),
    "expected received actual got want have left:_ right:_ to_throw to_equal to_match to_contain assert "
    "did_not_raise pytest.raises raise rescue catches wanterr want_err",
)
# What a test compared: the words alone behind a sign of a difference.
_DIFFED = re.compile(
    r"(?:E\s{2,})?[-+]\s+(?:[\"'`].*[\"'`]|(?:permission denied|operation not permitted|access denied)),?$",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"^\s*(?:[\w./-]+[:-]\d+[:-](?:\d+[:-])?\s*)?(?:[-+]\s{0,8})?(?:raise |throw |except |\}? ?catch ?[({]|assert |"
    r"return |if \(|if err|case [A-Z\"']|elif |const |let |var |def |func |fn |print\w* ?\(|console\.\w|expect\(|"
    r"(?:it|test|describe)\(|// |#define |/\*|\"\"\"|@pytest|>\s{3,}(?![~/])|\d+:\d+ {1,4}(?:error|warning) |"
    r"\d+ +\| |\S+:\d+:\d+: (?:fatal )?(?:error|warning): (?:#(?:error|warning)|static assertion)\b)"
)
# What a compiler or linter says of source text, with its place and a rule's number.
_DIAGNOSTIC = re.compile(r"\s*\S+\.\w+[:(]\d+[:,]\d+\)?:? (?:(?:error|warning|note|info)[: ] ?)?\[?[A-Z]{1,4}\d{2,5}\b")
_GREPPED = re.compile(r"^[\w./@+-]+\.[A-Za-z]{1,6}[:-]\d+[:-]")
_STAMPED = re.compile(r"^\s*[\[(]?\d{4}-\d\d-\d\d[T ]|^\w{3} +\d{1,2} \d\d:\d\d:\d\d ")
_DAEMON = re.compile(r"daemon socket|docker\.sock|podman\.sock|\bdial unix\b")


class Content:
    """Reads the lines of one failure with its command in mind."""

    def __init__(self, failure: Failure, commands: tuple[Simple, ...]) -> None:
        self.failure = failure
        self.commands = commands
        self.names = frozenset(simple.name for simple in commands)
        working = [simple for simple in commands if simple.name not in _NEUTRAL and simple.name]
        self.elsewhere = any(others.elsewhere(simple) for simple in working)
        self.remote_end = next((end for simple in working if (end := others.remote_end(simple))), "")
        self.judging = bool(working) and all(
            not _LINTERS.isdisjoint((simple.name, *simple.words[:3])) for simple in working
        )
        self.reading = bool(working) and all(_shows(simple) for simple in working)
        if self.reading and all(simple.name in _LISTERS for simple in working):
            self.reading = False  # they print names and numbers, never a file's text
        if not working and any(simple.name in ("echo", "printf") for simple in commands):
            self.reading = True

    def somebody_elses(self, line: str) -> others.Other | None:
        """Whose a line is by its form alone, before it is taken apart."""
        return others.of_line(line)

    def of_finding(self, finding: Finding) -> others.Other | None:
        """Whose a finding is by where the command ran it."""
        program = finding.program
        if self.elsewhere and not _DAEMON.search(finding.line):
            local = {simple.name for simple in self.commands if not others.elsewhere(simple)} - _NEUTRAL
            own = {simple.name for simple in self.commands if others.elsewhere(simple)}
            # sftp and ansible start the ssh of this machine, which tells its own connection in its own name.
            by_ssh = program == "ssh" and bool(own & others.OVER_SSH)
            here = program in local or ((program in own or by_ssh) and finding.kind in ("network", "socket"))
            if not here and not self._on_this_side(finding, own):
                return others.CONTAINER
        if self.remote_end:
            line = finding.line
            remote_side = "eceiver]" in line or "enerator]" in line if self.remote_end == "to" else "ender]" in line
            if "]" not in line.split(":")[1:2][0] if program == "rsync" and ":" in line else False:
                remote_side = False
            if program == "scp" and finding.kind == "path":
                remote_side = "local" not in line
            if remote_side:
                return others.REMOTE
        return None

    def _on_this_side(self, finding: Finding, own: set[str]) -> bool:
        """Whether ssh or docker itself speaks of a file of this home: its keys and settings."""
        home = self.failure.home or home_of(self.failure.project)
        if not finding.paths or not home:
            return False
        path = place(finding.paths[0], "", home)
        if own & others.OVER_SSH:
            # What sftp fetches is written here, and so it says.
            return inside(path, f"{home}/.ssh") or " local " in finding.line
        return inside(path, home) and not any(f"{path}" in word for simple in self.commands for word in simple.words)

    def merely_shown(self, line: str, finding: Finding | None) -> bool:
        """Whether a line was shown and not suffered."""
        stripped = line.strip()
        if finding is not None and _talked_about(finding):
            return True
        if _DIFFED.match(stripped):
            return True
        if len(stripped) > 8 and stripped in self.failure.command:
            return True
        if _PASSED.search(line) or _COMPARED.search(line) or _CODE.match(line):
            return True
        if _DIAGNOSTIC.match(line) and not (finding and any(map(looks_like_path, finding.paths))):
            return True
        if self.judging and finding is not None and not finding.paths and not _SYSTEMS.search(line):
            return True
        if not self.reading:
            return bool(_GREPPED.match(line)) and bool(self.names & {"grep", "rg", "ag", "ack"})
        return not self._in_own_name(line, finding)

    def _redirected(self, finding: Finding | None) -> bool:
        """Whether a line is about where the command itself sends its output or takes its input."""
        if finding is None or not finding.paths:
            return False
        for simple in self.commands:
            for _, target in simple.redirects:
                if any(
                    path == target
                    or place(path, simple.cwd, self.failure.home) == place(target, simple.cwd, self.failure.home)
                    for path in finding.paths
                ):
                    return True
        return False

    def _in_own_name(self, line: str, finding: Finding | None) -> bool:
        if self._redirected(finding):
            return True
        program = program_of(line)
        script = shell_script(line)
        if basename(script) in _SHELLS or program in _SHELLS:
            return self._about_arguments(finding) or bool(finding and finding.kind == "network")
        if program in WRAPPERS and program in self.failure.command:
            return True  # it starts another program, and shows nothing itself
        if self._about_what_is_shown(line, finding):
            return True
        if program in self.names and program not in ("echo", "printf"):
            return program in ("curl", "cd") or self._about_arguments(finding)
        if "git" in self.names and program in _OWN_OF_GIT:
            return True
        if "systemctl" in self.names and line.startswith("Failed to "):
            return True
        if "curl" in self.names and line.startswith("* "):
            return True
        if "find" in self.names and program in ("bfs", "find"):
            return True
        return bool(self.names & {"grep", "egrep"}) and program == "ugrep"

    def _about_what_is_shown(self, line: str, finding: Finding | None) -> bool:
        """Whether a line is a path that the command was told to show and the error alone, as pagers have it."""
        alone = _PATH_ALONE.match(line)
        if finding is None or alone is None or finding.paths != (alone["path"],):
            return False
        printed = finding.paths[0]
        full = place(printed, "", self.failure.home)
        return any(
            word[:1] in "/~." and inside(full, place(word, simple.cwd, self.failure.home))
            for simple in self.commands
            for word in simple.words
        )

    def _about_arguments(self, finding: Finding | None) -> bool:
        """Whether what a line names was asked for by the command: itself, below it, or not to be known."""
        if finding is None or not finding.paths:
            return True
        for path in finding.paths:
            if len(path) > 3 and path in self.failure.command:
                return True
            for simple in self.commands:
                full = place(path, simple.cwd, self.failure.home)
                words = [*simple.words, *(target for _, target in simple.redirects)]
                for word in words:
                    if "$" in word or "*" in word or "`" in word or word == path:
                        return True
                    if word[:1] != "-" and inside(full, place(word, simple.cwd, self.failure.home)):
                        return True
                if not looks_like_path(path) or path.startswith("."):
                    return True
                if inside(full, simple.cwd or "/"):
                    return True
                if simple.body or simple.name in ("xargs", "cd", "."):
                    return True
        return False


_PATH_ALONE = re.compile(
    r"(?:\[[\w -]{2,30}\]:? )?[\"'`‘]?(?P<path>[/~.][^:]*?)[\"'`’]?: [^:]{5,60}(?: \(os error \d+\))?$"
)
_IN_QUOTES = re.compile(
    r"[\"'`“‘](?:[Pp]ermission denied|[Oo]peration not permitted|[Aa]ccess denied|[Rr]ead-only file system)[\"'`”’]"
)
_NUMBER = re.compile(r"\b(?:13|1|30|errno|Errno)\b|E(?:ACCES|PERM|ROFS)")
# A table of errors: `{13: 'Permission denied', ...`, where an error object has a name for the number.
_TABLE = re.compile(r"[{\[,(]\s*[\"']?-?\d{1,3}[\"']?\s*(?::|=>)\s*[\"'][A-Z]")


_NOUN = re.compile(
    r"\b(?:permission denied|operation not permitted|access denied|read-only file ?system)[\"'`]? (?:mode|errors?|page|"
    r"message|handling|exception|response|dialog|screen|banner|text|string)\b",
    re.IGNORECASE,
)
_SYSTEMS = re.compile(r"\bos error \d|\[Errno \d")
_LISP = re.compile(r"\([\w-]*(?:error|denied) \"")  # a condition as Emacs prints it: all its parts are strings
_ROW = re.compile(
    r"^[\s\"'{[(|]*(?:(?P<number>-?\d{1,4})\b[^\w/~.]{1,12}(?:E[A-Z0-9]{2,15}\b)?|(?P<name>E[A-Z0-9]{2,15})\b)"
    r"[^\w/~]{0,12}[\w (),'-]*[\"'\])}|,]*$"
)


def tabled(lines: Sequence[str], index: int) -> bool:
    """Whether a line that names an error is a row of a table of errors: the next one, above or below, is another's."""
    row = _ROW.match(lines[index])
    if row is None:
        return False
    beside = (lines[at] for at in (index - 1, index + 1) if 0 <= at < len(lines))
    others_row = (_ROW.match(line) for line in beside)
    return any(
        other and other.lastgroup == row.lastgroup and other[other.lastgroup or 0] != row[row.lastgroup or 0]
        for other in others_row
    )


def _talked_about(finding: Finding) -> bool:
    """Whether a line has an error's words in quotes and nothing else of an error: an expectation, a title."""
    line = finding.line
    if not finding.paths and _NOUN.search(line):
        return True
    said = {match[0][1:-1].lower() for match in _IN_QUOTES.finditer(line)} if not finding.paths else ()
    if not said or _LISP.search(line):
        return False
    return len(said) > 1 or bool(_TABLE.search(line)) or not _NUMBER.search(line)


def _shows(simple: Simple) -> bool:
    """Whether a command only shows what is there."""
    name, words = simple.name, simple.words
    if name == "git":
        sub = next(
            (
                word
                for at, word in enumerate(words)
                if word[:1] != "-" and (at == 0 or words[at - 1] not in ("-C", "-c"))
            ),
            "",
        )
        return sub in _GIT_SHOWS or (sub == "stash" and "show" in words)
    if name == "gh":
        return any(word in _GH_SHOWS for word in words[:3]) or "--log" in words or "--log-failed" in words
    if name == "sed":
        return not any(word[:2] == "-i" or word.startswith("--in-place") for word in words)
    if name == "curl":
        return not any(
            word in ("-o", "-O", "--output", "--remote-name") or re.fullmatch(r"-[a-zA-Z]*[oO]", word) for word in words
        )
    if name in ("systemctl", "launchctl", "service"):
        return not {"status", "show", "cat", "list", "print"}.isdisjoint(words[:4])
    if name in ("awk", "gawk", "mawk"):
        return not any("inplace" in word or ">" in word or "system(" in word for word in words[:20])
    if name in ("python", "python3"):
        return "json.tool" in words
    if name in ("find", "sort"):
        return not any(word in ("-exec", "-execdir", "-delete", "-o", "--output", "-fprint") for word in words) or (
            name == "find" and "-exec" not in words and "-delete" not in words
        )
    if any("://" in word for word in words[:20]):
        return False  # it fetches what it shows
    return name in _SHOWERS or name in _NEUTRAL or not name


def stamped(line: str) -> bool:
    """Whether a line starts with a log's time."""
    return bool(_STAMPED.match(line))


def about_network(line: str) -> bool:
    """Whether a line speaks of the network."""
    return bool(network.WORDS.search(line))
