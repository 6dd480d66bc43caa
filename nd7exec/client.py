"""`nd7-exec -c COMMAND`: have the session's supervisor run a command under the policy as it stands now.

This file is the path of every command, so it imports builtin modules only and stands alone: `nd7exec.launcher`
compiles it into `<state>/bin/nd7-exec`, which runs under `python -IS` without a search path, and again into
`nd7-record`, the hook.  Nothing in here decides anything: it runs on the confined side, and a confined process that
replaced it would gain nothing.  What it must do well is fail: every way out but the supervisor's own answer
ends in one line, exit 126, and no command.

The rendezvous is `socket(AF_UNIX, SOCK_STREAM, 0x6e64)`.  No kernel knows that protocol, so outside a session the
call fails with EPROTONOSUPPORT; inside, the session's seccomp filter hands the call to the supervisor, which puts
one end of a socketpair into this process.  There is no path that could be guessed, masked or reached by others.
"""

# No `from __future__ import annotations`: it is a real import, of a file, at each start of a command.
import _socket
import errno
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import NoReturn
else:
    import _signal

EXEC, RECORD = 0x6E64, 0x6E65  # the rendezvous' protocol numbers: a command, a hook's payload
REQUEST = b"ND71"
HOOK_SECONDS = 4.0  # claude is blocked while a hook runs; the limit promised to a person is 5 s
USAGE = "usage: nd7-exec -c COMMAND\n"
GONE = "the session's supervisor is gone"
RELAYED = (1, 2, 3, 10, 12, 15, 18, 20)  # HUP INT QUIT USR1 USR2 TERM CONT TSTP on x86-64 and arm64
# What nohup, trap '' and & leave ignored in a child.  Not KILL and STOP, and not PIPE and XFSZ, which Python itself
# ignores at its start, so that nobody can tell any more what they were.
MAY_BE_IGNORED = tuple(number for number in range(1, 32) if number not in (9, 13, 19, 25))


def fail(reason: str) -> "NoReturn":
    """One line on stderr, exit 126: nothing was run."""
    line = ("nd7-exec: " + reason + "\n").encode("utf-8", "surrogateescape")
    try:
        posix.write(2, line)
    finally:
        posix._exit(126)


def raw(text: str) -> bytes:
    """A command line argument as the bytes that it was."""
    return text.encode(sys.getfilesystemencoding(), "surrogateescape")


def rendezvous(protocol: int) -> _socket.socket:
    """A connection to the supervisor of the session that this process is in; OSError if there is none."""
    return _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, protocol)


def run_command(command: bytes) -> "NoReturn":
    """Ask for the command and become what it became: its exit status, or the signal that ended it."""
    fds, present = [], 0
    for fd in (0, 1, 2):
        try:
            posix.fstat(fd)
        except OSError:
            # A closed descriptor stays closed in the command; here no connection of ours may get its number.
            posix.open("/dev/null", posix.O_RDWR)
            continue
        fds.append(fd)
        present |= 1 << fd
    try:
        connection = rendezvous(EXEC)
    except OSError as error:
        fail(why_no_session(error.errno or 0))
    fds.append(working_directory())
    umask = posix.umask(0)
    posix.umask(umask)
    ignored = 0
    for number in MAY_BE_IGNORED:
        if _signal.getsignal(number) == 1:  # SIG_IGN
            ignored |= 1 << number
    numbers = (present, umask, ignored, len(command))
    body = b"".join([n.to_bytes(4, "little") for n in numbers]) + command
    # No shell keeps a variable without a name, and no exec from Python takes one.
    body += b"\0".join([name + b"=" + value for name, value in posix.environ.items() if name])
    rights = b"".join([fd.to_bytes(4, sys.byteorder) for fd in fds])
    try:
        connection.sendmsg(
            [REQUEST + len(body).to_bytes(4, "little")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)]
        )
        view = memoryview(body)
        while view:
            view = view[posix.write(connection.fileno(), view) :]
    except OSError:
        pass  # the other side has answered without reading on, or is gone: the answer tells
    relay(connection, ignored)
    answer = read_answer(connection)
    kind, rest = answer[:1], answer[1:]
    if kind == b"X" and len(rest) == 4:
        become(int.from_bytes(rest, "little"))
    if kind == b"N":
        run_here(rest, command)
    fail(rest.decode("utf-8", "surrogateescape") if kind == b"E" else GONE)


def read_answer(connection: _socket.socket) -> bytes:
    """Everything that the other side says before it closes."""
    answer = b""
    try:
        while part := connection.recv(4096):
            answer += part
            if answer[:1] == b"X" and len(answer) == 5:
                break
    except OSError:
        pass
    return answer


def working_directory() -> int:
    """A descriptor of the cwd, which may be deleted or closed to us by its mode."""
    flags = posix.O_PATH | posix.O_DIRECTORY | posix.O_CLOEXEC
    try:
        return posix.open(".", flags)
    except OSError:
        try:
            return posix.open("/proc/self/cwd", flags)
        except OSError as error:
            fail("working directory: " + posix.strerror(error.errno or 0))


def relay(connection: _socket.socket, ignored: int) -> None:
    """From here on a signal to this process is one to the command.

    Before this call a signal ends this process, and the closed connection ends the command: nothing is lost.
    """

    def pass_on(number: int, _frame: object) -> None:
        stop = number == 20
        try:
            posix.write(connection.fileno(), b"S" + bytes([19 if stop else number]))
        except OSError:
            return
        if stop:
            posix.kill(posix.getpid(), 19)

    for number in RELAYED:
        if not ignored >> number & 1:
            _signal.signal(number, pass_on)


def become(status: int) -> "NoReturn":
    """End as the command ended: `status` is a wait(2) status."""
    number = status & 0x7F
    if number:
        if status & 0x80:  # it has dumped its own core; ours would only overwrite that
            import resource

            resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if number not in (9, 19):
            _signal.signal(number, _signal.SIG_DFL)
        posix.kill(posix.getpid(), number)
        posix._exit(128 + number)
    posix._exit(status >> 8 & 0xFF)


def run_here(shell: bytes, command: bytes) -> "NoReturn":
    """Become the shell in this very process, under whatever confines it already."""
    for number in (13, 25):  # SIGPIPE and SIGXFSZ: Python ignores them, and an exec would hand that on
        _signal.signal(number, _signal.SIG_DFL)
    try:
        posix.environ.pop(b"", None)
        posix.execve(shell, [shell, b"-c", command], posix.environ)
    except OSError as error:
        fail("exec " + shell.decode("utf-8", "surrogateescape") + ": " + posix.strerror(error.errno or 0))


def why_no_session(number: int) -> str:
    """The reason for a failed rendezvous.  Only ever a reason: nothing is run on its strength."""
    if number == errno.ENOSYS:  # the filter is there, its listener is not: seccomp_unotify(2)
        return GONE
    import json
    import pwd

    try:
        sessions = pwd.getpwuid(posix.getuid()).pw_dir + "/.nd7/sessions/"
    except KeyError:
        return "no nd7 session in this process's ancestry"
    pid, boot = posix.getppid(), ""
    while pid > 1:
        try:
            boot = boot or contents("/proc/sys/kernel/random/boot_id").decode().strip()
            fields = contents(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        except OSError:
            break
        try:
            record = json.loads(contents(f"{sessions}{pid}/record.json"))
            # A pid that was reused is not a session: the record names the owner's start.
            if record["owner_start"] == f"{boot}:{fields[19].decode()}":
                return why_not_this(f"{sessions}{pid}/policy.sb")
        except (OSError, ValueError, TypeError, LookupError):
            pass
        pid = int(fields[1])
    return "no nd7 session in this process's ancestry"


def contents(path: str) -> bytes:
    """A small file, read a piece at a time: those of /proc/sys refuse a read of 4 MB with ENOMEM."""
    fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    data = b""
    try:
        while (part := posix.read(fd, 1 << 16)) and len(data) < 1 << 22:
            data += part
        return data
    finally:
        posix.close(fd)


def why_not_this(policy: str) -> str:
    """A session was found, but this process is not under its filter: say what can be said of its policy."""
    try:
        contents(policy)
    except FileNotFoundError:
        return "session has no policy.sb"
    except OSError as error:
        return f"read {policy}: {error.strerror}"
    return "apply session policy: this process is outside the session's confinement"


def record(connection: "_socket.socket | None" = None) -> "NoReturn":
    """The hook: stdin to the supervisor, its answer to stdout.  Exit 0 whatever happens, within HOOK_SECONDS.

    A failure is a line on stderr and no answer, so the agent goes on to its own permission check.
    """

    def late(_number: int, _frame: object) -> None:
        raise TimeoutError(errno.ETIMEDOUT, "no answer within 4 s")

    # One alarm over everything: it also interrupts a stdin that never ends and a supervisor that is stopped.
    _signal.signal(14, late)
    _signal.setitimer(_signal.ITIMER_REAL, HOOK_SECONDS)
    answer = b""
    try:
        connection = connection or rendezvous(RECORD)
        try:
            while part := posix.read(0, 1 << 18):
                view = memoryview(part)
                while view:
                    view = view[posix.write(connection.fileno(), view) :]
            connection.shutdown(1)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it was refused half way; the answer says why
        while part := connection.recv(65536):
            answer += part
        problem = "the supervisor is gone" if not answer else ""
    except OSError as error:
        outside = error.errno in (errno.EPROTONOSUPPORT, errno.EPERM)
        problem = "not in an nd7 session" if outside else error.strerror or "failed"
    _signal.setitimer(_signal.ITIMER_REAL, 0)
    if answer[:1] == b"O":
        posix.write(1, answer[1:]) if answer[1:] else None
    else:
        problem = problem or answer[1:].decode("utf-8", "surrogateescape")
        posix.write(2, ("nd7 record: " + problem + "\n").encode("utf-8", "surrogateescape"))
    posix._exit(0)


def launched(arguments: list[str], hook: str) -> "NoReturn":
    """What the launcher calls.  `hook` is the launcher of the hook, whose absolute path is its whole command."""
    if len(arguments) != 2 or arguments[0] != "-c":
        posix.write(2, USAGE.encode())
        posix._exit(2)
    command = raw(arguments[1])
    if posix.environ.get(b"AI_AGENT", b"").endswith(b"_harness"):
        # The agent's prefix also wraps its hooks.  They are the agent's own doing and stay in the floor that they are
        # in (who lies here gets the floor, never more).  The rendezvous proves that there is a floor at all.
        if command == raw(hook):
            record()
        try:
            rendezvous(EXEC).close()
        except OSError as error:
            fail(why_no_session(error.errno or 0))
        run_here(b"/bin/sh", command)
    run_command(command)


def main() -> "NoReturn":
    """The console script: the same without the hook's short cut."""
    launched(sys.argv[1:], "")
