"""Hosts, ports and sockets: from the line, from the lines around it, and from the command where the text has none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from nd7core.attribution.finding import names
from nd7core.attribution.gate import Gate
from nd7core.attribution.shell import Simple

WORDS = Gate(
    re.compile(
        r"\b(?:connect(?:ion|ing|ed)?|listen(?:ing|er)?|bind(?:ing|0)?|socket|dial|getaddrinfo|sendto|sendmsg|"
        r"urlopen|fsockopen|port|tcp|udp|unix_listener|accept|dgram|socktype|hostname|resolve|networking)\b|"
        r"\b(?:Connect|Socket|Bind|HttpConnect)(?:Exception|Error)\b|SOCK_|AF_|ECONN|_socket\b|[Ss]ocket\w*[(.]|"
        r"make_sock|:service \d|SQLSTATE\[HY000\] \[200\d\]",
        re.IGNORECASE,
    ),
    "connect listen bind socket dial getaddr sendto sendmsg urlopen port tcp udp accept dgram sock hostname resolve "
    "networking :service sqlstate af· econn send_e",
)
LISTEN = re.compile(
    r"\b(?:listen(?:ing)?|bind(?:ing)?|bind0|BindException|make_sock|\bsend E(?:PERM|ACCES)\b|unix_listener|"
    r"server_bind|[A-Za-z]\w*_(?:bind|listen)(?=[(: ]))\b",
    re.IGNORECASE,
)

_HOST = r"(?:\[[0-9a-fA-F:.%]+\]|[A-Za-z0-9_](?:[\w.-]*\w)?|\*)"
_URL = re.compile(
    r"\b([a-z][a-z0-9+]{1,15})://(?:[^\s/@'\"<>]*@)?(\[[0-9a-fA-F:]+\]|[^\s/:'\"<>\[\](),;?]+)(?::(\d{1,5}))?"
)
SPECIAL_FILE = re.compile(r"/dev/(?:tcp|udp)/|/inet[46]?/(?:tcp|udp)/")
"""What bash and awk take for the name of a file and make a connection of."""
_PATTERNS = (
    re.compile(rf"/dev/(?:tcp|udp)/(?P<host>{_HOST})/(?P<port>\d{{1,5}})"),
    re.compile(rf"/inet[46]?/(?:tcp|udp)/\d+/(?P<host>{_HOST})/(?P<port>[1-9]\d{{0,4}})"),
    re.compile(r"/inet[46]?/(?:tcp|udp)/(?P<port>[1-9]\d{0,4})/(?P<host>0)/0"),
    re.compile(rf"(?P<host>{_HOST})\)?\|[^|\s]{{1,60}}\|:(?P<port>\d{{1,5}})"),
    re.compile(rf"\b(?:dial|listen|read|write)\s(?:tcp|udp)[46]?\s(?:\S+->)?(?P<host>{_HOST}|::)?:(?P<port>\d{{1,5}})"),
    re.compile(
        rf"\b(?:connect(?:ion)?|listen(?:ing)?|bind)\s+(?:to|on"
        rf"|for)\s+(?:\w+\s+){{0,2}}?[\"']?(?P<host>{_HOST})[\"']?(?:\s\([^)\s]*\))?,?\s+"
        r"(?:on\s)?port\s(?P<port>\d{1,5})",
        re.IGNORECASE,
    ),
    re.compile(rf"[\"'](?P<host>{_HOST})[\"']\s(?:\([^)\s]*\),?\s)?port\s(?P<port>\d{{1,5}})"),
    re.compile(
        rf"\bhost(?:name)?[=:]\s?[\"']?(?P<host>{_HOST})[\"']?,?\s?port[=:]\s?[\"']?(?P<port>\d{{1,5}})", re.IGNORECASE
    ),
    re.compile(rf"\bipv[46]:(?P<host>{_HOST}):(?P<port>\d{{2,5}})"),
    re.compile(rf":host \"(?P<host>{_HOST})\" :service (?P<port>\d{{1,5}})"),
    re.compile(rf"\baddress:\s?[\"'](?P<host>{_HOST}|::\d*)[\"'],?\s+port:\s?(?P<port>\d{{1,5}})"),
    re.compile(rf"\(\s?[\"'](?P<host>{_HOST}|::\d*)[\"'],\s?(?P<port>\d{{1,5}})"),
)
_PAIR = re.compile(
    r"(?<![\w./:-])(?P<host>\d{1,3}(?:\.\d{1,3}){3}|localhost|\*|\[[0-9a-fA-F:.]+\]|::1?|"
    r"[A-Za-z0-9][\w-]*(?:\.[\w-]+)*|(?<![\"'])):(?P<port>\d{2,5})(?![\w/-]|[.:]\w)"
)
_HOST_PORT_WORD = re.compile(r"(?P<host>\d{1,3}(?:\.\d{1,3}){3}|localhost)[\s,]+(?:port\s)?(?P<port>\d{2,5})\b")
_PORT_WORD = re.compile(r"\bport[\s:=]+(?P<port>\d{1,5})\b", re.IGNORECASE)
_BARE_HOST = re.compile(r"\b(?P<host>\d{1,3}(?:\.\d{1,3}){3}|localhost)\b")
_SOURCE_FILE = re.compile(r"\.(?:py|js|ts|rb|go|rs|java|c|cc|cpp|h|php|pl|sh|mjs|cjs|tsx|jsx|kt|ex|exs|lua|swift|cs)$")

SCHEME_PORTS = {
    "http": 80,
    "https": 443,
    "ftp": 21,
    "ssh": 22,
    "git": 9418,
    "ws": 80,
    "wss": 443,
    "redis": 6379,
    "rediss": 6379,
    "postgres": 5432,
    "postgresql": 5432,
    "mysql": 3306,
    "mongodb": 27017,
    "amqp": 5672,
    "ldap": 389,
    "smtp": 25,
    "rsync": 873,
    "svn": 3690,
    "sftp": 22,
    "git+ssh": 22,
    "telnet": 23,
    "imap": 143,
    "nats": 4222,
    "memcached": 11211,
    "mqtt": 1883,
}
PROGRAM_PORTS = {
    "psql": 5432,
    "pg_dump": 5432,
    "pg_isready": 5432,
    "createdb": 5432,
    "mysql": 3306,
    "mysqldump": 3306,
    "mysqladmin": 3306,
    "mariadb": 3306,
    "redis-cli": 6379,
    "redis-server": 6379,
    "mongosh": 27017,
    "mongo": 27017,
    "ssh": 22,
    "scp": 22,
    "sftp": 22,
    "rsync": 873,
    "telnet": 23,
    "ftp": 21,
    "svn": 3690,
    "ldapsearch": 389,
    "mosquitto_pub": 1883,
    "mosquitto_sub": 1883,
    "adb": 5037,
    "cqlsh": 9042,
    "etcdctl": 2379,
}
PROGRAMS = names(
    "nc ncat netcat socat telnet ftp lftp tnftp curl wget aria2c ping ping6 nmap dig host nslookup redis-cli "
    "mysqladmin mosquitto_pub mosquitto_sub http https httpie xh grpcurl websocat iperf iperf3 traceroute "
    "ntpdate whois"
)
"""Programs that do nothing but talk to others: a bare error of theirs is the network's."""
_PORT_OPTIONS = ("-p", "-P", "--port", "-port", "-l", "--listen", "--bind-port")
_HOST_OPTIONS = ("-h", "--host", "--bind", "-b", "--hostname", "--ip", "--address", "-H", "-connect")
_LITERAL_PAIR = re.compile(r"[\"']([\w.-]+)[\"']\s?,\s?(\d{2,5})\b|\b(\d{2,5})\s?,\s?[\"']([\w.-]+)[\"']")
_SERVERS = frozenset({"http.server", "runserver", "uvicorn", "flask", "gunicorn", "vite", "serve", "http-server"})
_NO_HOST = names("server host database remote proxy peer tcp udp line port error code at in file to address reason")


def _number(text: str | None) -> int:
    value = int(text) if text else 0
    return value if 0 < value < 65536 else 0


def pair(text: str, *, loose: bool) -> tuple[str, int]:
    """Host and port that a line names, or ("", 0).

    Args:
        loose: also take `name:number`, which is right only where the line is known to be about the network
            (`x.py:41` has the same shape).
    """
    for pattern in _PATTERNS:
        match = pattern.search(text)
        if match:
            host = (match["host"] or "").strip("[]")
            return ("" if host.lower() in _NO_HOST else host), _number(match["port"])
    for match in _URL.finditer(text):
        port = _number(match[3]) or SCHEME_PORTS.get(match[1].lower(), 0)
        if port and match[1] != "file":
            return match[2].strip("[]"), port
    if loose:
        for match in _PAIR.finditer(text):
            host = (match["host"] or "").strip("[]")
            if host.lower() in _NO_HOST or _SOURCE_FILE.search(host) or (host.isdigit()):
                continue
            port = _number(match["port"])
            if port:
                return host, port
        match_word = _HOST_PORT_WORD.search(text)
        if match_word:
            return match_word["host"], _number(match_word["port"])
    return "", 0


def around(lines: Sequence[str], index: int) -> tuple[str, int]:
    """Host and port from the lines next to a line that names none, the nearest first."""
    host_only = ""
    for distance in (1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6):
        at = index + distance
        if not 0 <= at < len(lines):
            continue
        line = lines[at]
        if not WORDS.search(line) and "://" not in line and "Trying" not in line:
            continue
        host, port = pair(line, loose="Trying" in line or bool(WORDS.search(line)))
        if port:
            return host, port
        bare = _BARE_HOST.search(line)
        if bare and not host_only:
            host_only = bare["host"]
    return host_only, 0


def host_on(line: str) -> str:
    """A host that stands alone on a line: a number in dots, or localhost."""
    match = _BARE_HOST.search(line)
    return match["host"] if match else ""


def port_on(line: str) -> int:
    """The number behind the word port, or 0."""
    match = _PORT_WORD.search(line)
    return _number(match["port"]) if match else 0


def from_command(commands: Iterable[Simple], program: str = "", *, listening: bool = False) -> tuple[str, int]:
    """Host and port that the command itself names, by URL, option, argument, or the program's own default.

    Args:
        listening: a URL in the command is where it would connect, so it is not looked at.
    """
    fallback = ("", 0)
    for simple in commands:
        if program and simple.name != program and fallback != ("", 0):
            continue
        host, port = _of_simple(simple, listening)
        if port and (not program or simple.name == program):
            return host, port
        if port and fallback == ("", 0):
            fallback = host, port
    return fallback


_TALKS = re.compile(
    r"socket|(?<!sqlite3\.)\bconnect\w*\(|\burlopen|https?://|\.bind\(|\.listen\(|createServer|gen_tcp|gen_udp|"
    r"HTTPConnection|requests\.|\bfetch\(|TcpClient|TcpListener|net\.(?:Dial|Listen)|smtplib|ftplib|start_server|"
    r"open_connection",
    re.IGNORECASE,
)
_SERVES = re.compile(
    r"\b(?:createServer|listen|bind|start_server|TcpListener|TCPServer|ServerSocket|HTTPServer)\b|-server\b", re.I
)
_SERVER_WORDS = (
    ("flask", "run"),
    ("uvicorn", ""),
    ("gunicorn", ""),
    ("hypercorn", ""),
    ("rails", "s"),
    ("rails", "server"),
    ("vite", ""),
    ("serve", ""),
    ("http-server", ""),
    ("live-server", ""),
    ("webpack-dev-server", ""),
    ("jupyter", ""),
    ("caddy", "run"),
    ("php", "-S"),
)


def talks(commands: Iterable[Simple]) -> str:
    """ "listen" or "connect" where the command itself is one that talks to others, "" where it does not show."""
    for simple in commands:
        if simple.name in PROGRAMS:
            return "connect"
        for name, word in _SERVER_WORDS:
            if (simple.name == name or name in simple.words[:3]) and (not word or word in simple.words):
                return "listen"
        for text in (*simple.words, simple.body):
            if 8 < len(text) < 20_000 and _TALKS.search(text):
                return "listen" if _SERVES.search(text) else "connect"
        if "http.server" in simple.words:
            return "listen"
    return ""


_UNIX_CODE = re.compile(
    r"AF_UNIX|PF_UNIX|AF_LOCAL|unix_connection|unix_server|UNIX(?:Socket|Server)|Socket::UNIX|UnixDomainSocket|"
    r"Unix(?:Stream|Listener|Datagram)|socketPath|unix://|--unix-socket"
)
SOCKET_URL = re.compile(r"\bunix:(?://)?(/[^\s:'\"()]+)")
_INET_CODE = re.compile(r"AF_INET|https?://(?!localhost/)|create_connection|TcpStream")
_SOCKET_NAME = re.compile(
    r"(?P<path>(?:~|/)[^\s\"'()=,;:]*(?:\.(?:sock|socket|ipc)(?![.\w])|/bus\b|/S\.[\w.-]+|[Ss]ock\w*(?![.\w])))|"
    r"(?:connect|bind|new|open|client)\w*\(+[\"']?(?:unix://)?(?P<called>/[^\s\"'(),;]+)"
)


def unix(commands: Iterable[Simple]) -> str | None:
    """The unix socket that the command's own code or options use, "" where it names none, None where it uses none."""
    for simple in commands:
        for text in (" ".join(simple.words)[:20_000], simple.body[:20_000]):
            if _UNIX_CODE.search(text) and not _INET_CODE.search(text):
                name = _SOCKET_NAME.search(text)
                return (name["path"] or name["called"]) if name else ""
        for word in simple.words:
            if word.endswith((".sock", ".socket")) and word[:1] in "/~.":
                return word
    return None


def socket_named(lines: Iterable[str]) -> str:
    """A unix socket's path in the lines of a stack trace, "" for none."""
    found = (_SOCKET_NAME.search(line[:1000]) for line in lines if 'File "' not in line)
    return next((match["path"] for match in found if match and match["path"]), "")


_ASKED = re.compile(rf"({_HOST}):(\d{{2,5}})(?:/\S*)?")
_ENDPOINT = re.compile(r"(?P<host>\d{1,3}(?:\.\d{1,3}){3}|localhost|\[[0-9a-fA-F:]+\]):(?P<port>\d{2,5})")


def argument(commands: Iterable[Simple]) -> tuple[str, int] | None:
    """Host and port where one whole argument of a command is an address, None where none is."""
    for simple in commands:
        for word in simple.words:
            match = _ENDPOINT.fullmatch(word)
            if match and _number(match["port"]):
                return match["host"].strip("[]"), _number(match["port"])
    return None


def _of_simple(simple: Simple, listening: bool) -> tuple[str, int]:
    words = simple.words
    for operator, target in simple.redirects:
        if target.startswith(("/dev/tcp/", "/dev/udp/")) and operator:
            return pair(target, loose=False)
    for word in words:
        if "://" in word and not listening:
            host, port = pair(word, loose=False)
            if port:
                return host, port
    default = PROGRAM_PORTS.get(simple.name, 0)
    host, port = "", 0
    bare: list[str] = []
    index = 0
    while index < len(words):
        word = words[index]
        following = words[index + 1] if index + 1 < len(words) else ""
        name, equals, value = word.partition("=")
        if word in _PORT_OPTIONS and following.isdigit():
            port, index = _number(following), index + 1
        elif equals and name in ("--port", "-port") and value.isdigit():
            port = _number(value)
        elif word in _HOST_OPTIONS and following and following[:1] != "-":
            host, index = following, index + 1
        elif equals and name in _HOST_OPTIONS:
            host = value
        elif word[:1] != "-" or not word:
            bare.append(word)
        index += 1
    if simple.name in ("nc", "ncat", "netcat", "telnet", "nmap", "socat"):
        for at, word in enumerate(bare):
            if word.isdigit() and _number(word):
                return (bare[at - 1] if at else host), _number(word)
            loose = pair(word, loose=True)
            if loose[1]:
                return loose
    if simple.name in ("ssh", "scp", "sftp") and bare:
        target = next((word for word in bare if "@" in word or ":" in word), bare[0])
        return target.split("@")[-1].split(":")[0], port or default
    if port:
        return host, port
    if default:
        return host or "localhost", default
    for word in bare:
        if word.isdigit() and 1000 <= int(word[:6]) < 65536 and any(server in words for server in _SERVERS):
            return host or "0.0.0.0", int(word)
        loose = pair(word, loose=False) if len(word) < 200 and not listening else ("", 0)
        if loose[1]:
            return loose
        if asked := _ASKED.fullmatch(word):
            return asked[1], _number(asked[2])
    for word in words:
        literal = _LITERAL_PAIR.search(word)
        if literal:
            return (literal[1], _number(literal[2])) if literal[1] else (literal[4], _number(literal[3]))
    return "", 0


def shown(host: str, port: int) -> str:
    """`host:port` as it is written in a verdict; "" for nothing known."""
    if not port:
        return host
    return f"{host}:{port}"
