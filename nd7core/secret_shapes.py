"""What secrets look like: the public formats that issuers document, as plain text until one is needed.

Each entry has a substring, and its pattern is tried only where that stands: most text that is shown holds none of them,
and looking for a substring costs a hundredth of what a pattern does.  Every pattern is linear: bounded prefixes, one
class that repeats, nothing that can be split in two ways.
"""

from __future__ import annotations

MASKED = "[masked]"

# Issuers' prefixes: (what it begins with, pattern).  `{6,}` where the prefix says it all, so that a token whose end was
# cut off is still one; longer where the prefix is also a word.
TOKENS: tuple[tuple[str, str], ...] = (
    # Agents' and models' services
    ("sk-ant-", r"\bsk-ant-[A-Za-z0-9_-]{6,}"),
    ("sk-proj-", r"\bsk-(?:proj|svcacct|admin|or-v1)-[A-Za-z0-9_-]{6,}"),
    ("sk-", r"\bsk-(?=[A-Za-z_-]{0,100}[0-9])[A-Za-z0-9_-]{16,}"),
    ("hf_", r"\bhf_[A-Za-z0-9]{16,}"),
    ("gsk_", r"\bgsk_[A-Za-z0-9]{16,}"),
    ("xai-", r"\bxai-[A-Za-z0-9]{16,}"),
    ("pplx-", r"\bpplx-[A-Za-z0-9]{16,}"),
    ("r8_", r"\br8_[A-Za-z0-9]{20,}"),
    # Forges
    ("gh", r"\bgh[pousr]_[A-Za-z0-9]{6,}"),
    ("github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{6,}"),
    ("gl", r"\bgl(?:pat|dt|rt|cbt|ptt|ft|soat|imt|agent|oas|ffct)-[A-Za-z0-9_-]{12,}"),
    ("ATATT", r"\bATATT[A-Za-z0-9_=-]{20,}"),
    ("ATBB", r"\bATBB[A-Za-z0-9]{24,}"),
    # Clouds
    *((name, rf"\b{name}[0-9A-Z]{{16}}\b") for name in ("AKIA", "ASIA", "ABIA", "ACCA")),
    ("AIza", r"\bAIza[A-Za-z0-9_-]{30,}"),
    ("ya29.", r"\bya29\.[A-Za-z0-9_-]{10,}"),
    ("GOCSPX-", r"\bGOCSPX-[A-Za-z0-9_-]{10,}"),
    ("1//0", r"(?<![A-Za-z0-9/:])1//0[A-Za-z0-9_-]{20,}"),
    ("do", r"\bdo[por]_v1_[a-f0-9]{16,}"),
    ("dapi", r"\bdapi[a-f0-9]{32}(?:-[0-9])?\b"),
    ("hv", r"\bhv[sbr]\.[A-Za-z0-9_-]{16,}"),
    ("pul-", r"\bpul-[a-f0-9]{40}\b"),
    (".atlasv1.", r"\.atlasv1\.[A-Za-z0-9_=-]{16,}"),
    ("tskey-", r"\btskey-[A-Za-z0-9-]{10,}"),
    ("glsa_", r"\bglsa_[A-Za-z0-9_]{16,}"),
    ("sntry", r"\bsntry[su]_[A-Za-z0-9+/=_-]{16,}"),
    ("dckr_", r"\bdckr_[po]at_[A-Za-z0-9_-]{10,}"),
    # Registries of packages
    ("npm_", r"\bnpm_[A-Za-z0-9]{20,}"),
    ("pypi-", r"\bpypi-(?=[A-Za-z_-]{0,100}[0-9])[A-Za-z0-9_-]{24,}"),
    ("rubygems_", r"\brubygems_[a-f0-9]{20,}"),
    # Money, mail, chat, the rest
    ("sk_", r"\bsk_(?:live|test)_[A-Za-z0-9]{6,}"),
    ("rk_", r"\brk_(?:live|test)_[A-Za-z0-9]{6,}"),
    ("whsec_", r"\bwhsec_[A-Za-z0-9+/=]{16,}"),
    ("shp", r"\bshp(?:at|ss|ca|pa)_[A-Fa-f0-9]{16,}"),
    ("sq0", r"\bsq0(?:atp|csp|idp)-[A-Za-z0-9_-]{16,}"),
    ("SG.", r"\bSG\.[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]{0,80})?"),
    ("key-", r"\bkey-[0-9a-f]{32}\b"),
    ("SK", r"\bSK[0-9a-f]{32}\b"),
    ("xox", r"\bxox[abeoprs]-[A-Za-z0-9-]{8,}"),
    ("xapp-", r"\bxapp-[0-9]-[A-Za-z0-9-]{8,}"),
    ("hooks.slack.com/", r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{10,}"),
    ("/api/webhooks/", r"/api/webhooks/[0-9]{10,24}/[A-Za-z0-9_-]{10,}"),
    (":AA", r"(?<=[0-9]{8}):AA[A-Za-z0-9_-]{30,}"),
    ("lin_api_", r"\blin_api_[A-Za-z0-9]{16,}"),
    ("ntn_", r"\bntn_[A-Za-z0-9]{20,}"),
    ("figd_", r"\bfigd_[A-Za-z0-9_-]{16,}"),
    ("PMAK-", r"\bPMAK-[A-Fa-f0-9]{16,}-[A-Fa-f0-9]{10,}"),
    ("NRAK-", r"\bNRAK-[A-Z0-9]{16,}"),
    # Formats without an issuer
    # What goes on without a dot is no token (`not`), nor is what begins within it, or each were read to its end.
    (
        "eyJ",
        r"\beyJ(?:[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]{0,4096}){0,3}|(?P<not>[A-Za-z0-9_-]{256,}))",
    ),
    ("AGE-SECRET-KEY-", r"\bAGE-SECRET-KEY-(?:PQ-)?1[A-Z0-9]{6,}"),
    ("LS0tLS1CRUdJTi", r"\bLS0tLS1CRUdJTi(?!BDRVJU|BQVUJM)[A-Za-z0-9+/=]{8,}"),  # PEM in base64, no certificate
    ("$", r"(?<![A-Za-z0-9])\$(?:1|2[abxy]|5|6|7|y|gy|sha1|argon2(?:id|i|d)|scrypt)\$[./A-Za-z0-9$=,+-]{20,}"),
)

_GAP = r"[\s\"',\[]"
_USER = r"[\"',= \t]{0,4}[^\s:'\"/,=-][^\s:'\"/]{0,127}:([^\s'\"]{1,200})"
# (what it begins with in lower case, pattern): what the last group holds is the secret, where `mask` thinks so.
PLACED: tuple[tuple[str, str], ...] = (
    ("bearer", r"(?i)\bbearer[ \t]{1,4}([A-Za-z0-9._~+/=-]{8,})"),
    ("basic", r"(?i)\bbasic[ \t]{1,4}([A-Za-z0-9+/=_-]{8,})"),
    ("login", r"(?i)\blogin\s{1,20}\S{1,200}\s{1,20}password\s{1,20}(\S{1,200})"),
    ("-pass", r"(?i)-pass(?:in|out)?[ \t=]{1,4}[\"']?pass:([^\s\"']{1,200})"),
    ("sshpass", r"\bsshpass[ \t]{1,4}-p[ \t]{0,4}[\"']?([^\s\"']{1,200})"),
    ("docker login", r"\bdocker login\b[^\n|;&]{0,200}?[ \t](?:-p|--password)[ \t=]{1,4}[\"']?([^\s\"']{1,200})"),
    ("mysql", r"\bmysql[a-z]{0,10}[ \t][^\n|;&]{0,200}?(?<=[ \t])-p[\"']?([^\s\"']{1,200})"),
    ("mariadb", r"\bmariadb[a-z-]{0,10}[ \t][^\n|;&]{0,200}?(?<=[ \t])-p[\"']?([^\s\"']{1,200})"),
    ("redis-cli", r"\bredis-cli\b[^\n|;&]{0,200}?[ \t]-a[ \t]{1,4}[\"']?([^\s\"']{1,200})"),
    (
        "--",
        (
            r"(?i)(?<![\w-])--(?!-)[a-z-]{0,30}"
            r"(?:passw(?:or)?d|passphrase|token|secret|(?:api|access|secret|private)-?key)[ \t]{1,4}(?!-)"
            r"(?:\"([^\"\r\n]{1,4096})|'([^'\r\n]{1,4096})|([^\s\"'|;&]{1,4096}))"
        ),
    ),
    ("-u", rf"(?:^|(?<={_GAP}))-[uU]{_USER}"),
    ("--user", rf"(?i)--user{_USER}"),
    ("--proxy-user", rf"(?i)--proxy-user{_USER}"),
    ("://", r"://[^\s/@:'\"<>]{0,256}:([^\s/@'\"<>]{1,256})@"),
    ("://", r"://([^\s/@:'\"<>]{20,256})@"),
    ("_auth", r"(?i)\b_auth[ \t]{0,8}=[ \t]{0,8}[\"']?([^\s\"']{4,4096})"),
)
# The same, where the pattern begins before what it is known by.
AROUND: tuple[tuple[str, str], ...] = (
    ("password", r"(?im)^[ \t]{0,20}password[ \t]{1,20}(\S{1,200})[ \t\r]{0,20}$"),
    ("sig", r"(?i)[?&](?:sig|signature|x-(?:amz|goog)-(?:signature|credential))=([^\s&\"'<>]{16,1024})"),
    ("auth", r"(?i)[\"']_?auth\\{0,3}[\"'][ \t]{0,8}:\s{0,20}\\{0,3}[\"']([A-Za-z0-9+/=_-]{4,4096})"),
    ("kty", r"\"(?:d|p|q|dp|dq|qi|k)\\{0,3}\"[ \t]{0,8}:[ \t]{0,8}\\{0,3}\"([A-Za-z0-9_-]{16,8192})"),
)

HEADERS = ("authorization", "cookie", "api-key", "token", "subscription-key")  # what the lower-cased names end with
HEADER_NAME = (
    r"(?:proxy-)?authorization|(?:set-)?cookie2?|(?:x-(?:[a-z]{1,20}-){0,3})?api-key|x-(?:[a-z]{1,20}-){0,3}token"
    r"|private-token|job-token|ocp-apim-subscription-key"
)
HEADER_SIGN = r"2?\\{0,3}([\"'])?[ \t]{0,8}[:=][ \t]{0,8}(?:\\{0,3}([\"']))?"

NAMES = (
    *("secret", "token", "passw", "passphrase", "pwd", "api", "access", "account", "private", "signing", "encryption"),
    *("client", "credential"),
)
NAMED = (
    r"(?i)(?P<name>secret|token|passw(?:or)?d|passphrase|pwd|api[_-]?key|access[_-]?key|account[_-]?key|private[_-]?key"
    r"|signing[_-]?key|encryption[_-]?key|client[_-]?key[_-]?data|credentials?)(?P<tail>[A-Za-z0-9_-]{0,32})"
    r"\\{0,3}[\"']?\]?[ \t]{0,8}(?P<sign>:=|=>|[=:])(?P<gap>[ \t]{0,8})"
    r"(?:\\{0,3}\"(?P<dq>(?:[^\"\\\r\n]|\\(?!\")[^\r\n]){1,4096})|\\{0,3}'(?P<sq>(?:[^'\\\r\n]|\\(?!')[^\r\n]){1,4096})"
    r"|(?P<bare>[^\s\"',;&)\]}]{1,4096}))"
)

# A name that goes on like this holds no secret: token_type, password_file, secret_name, api_key_url, max_tokens.
NO_NAME = (
    r"(?i)(?:name|type|file|path|dir|directory|ur[li]|endpoint|count|counts|limit|len|length|size|used|usage|ttl|age"
    r"|expir[a-z_]{0,12}|policy|manager|provider|helper|rotation|version|enabled|required|budget|window|[0-9])\Z"
)
# A value that is none: a number, a word for nothing, a variable, a placeholder, a call, a path, what is masked already.
NO_VALUE = (
    r"(?i)(?:[0-9.,]+|true|false|null|none|nil|undefined|yes|no|bearer|basic|str|string|bytes|optional|required"
    r"|invalid|expired|missing|unauthorized|denied|\$\{?[A-Za-z_].*|\$\(.*|`.*|%[A-Za-z_]+%|<[^>]*>?|\{\{.*|\*+|x{3,}|\.{3,}"
    r"|[A-Za-z_][A-Za-z0-9_.]*[(\[].*|[A-Za-z_]+(?:\.[A-Za-z_]+)+|\[masked\]?)\Z"
)
NO_PATH = r"(?:~|\.{1,2}|file://|[A-Za-z]:)?(?:[/\\][\w.@+ -]*)+\Z"
# `cat: /run/secrets/db_password: Permission denied` names a file; the reason of a refusal must stay to be read.
SENTENCE = (
    r"(?i)(?:Permission|Operation|No such|Read-only|Is a|Not a|File|Connection|Input/output|Device|Too many|Bad|Invalid"
    r"|Cannot|cannot|could|failed|not |is |was |must|required|expected|unable|access)[ a-zA-Z/-]"
)

# Private keys.  A line of a key's body as any tool shows it: cat -n, grep -n, a diff, an agent's Read, a mail's quote.
BODY_PREFIX = r"[ \t]{0,40}(?:[0-9]{1,7}[ \t]?[:|→\t)-]?[ \t]{0,8})?[^A-Za-z0-9\s/+=-]{0,3}[+-]?[ \t]{0,8}[\"']?"
BODY_LINE = BODY_PREFIX + (
    r"(?:(?P<body>[A-Za-z0-9+/=]{1,1024})|(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset|Subject):[^\r\n]{0,200})"
    r"(?:\\[nr]){0,4}[\"']?[,+\\]?[ \t\r│|]{0,200}"
)
BODY_WORDS = (
    r"(?:\\[nr]|[\s\"',]){0,8}[A-Za-z0-9+/=]{16,}(?:(?:\\[nr]|[\s\"',]){1,8}[A-Za-z0-9+/=]{16,})*"
    r"(?:(?:\\[nr]|[\s\"',]){1,8}[A-Za-z0-9/=]{1,15}(?=[\s\"']|\Z))?"
)
FULL_LINE = BODY_PREFIX + r"(?P<body>[A-Za-z0-9+/=]{64}|[A-Za-z0-9+/=]{70}|[A-Za-z0-9+/=]{76})[ \t\r│|]{0,200}"
LABEL = r"-{4,5} ?(BEGIN|END) ([A-Z0-9 ]{1,60}?) ?-{4,5}|^(Private)-Lines: ([0-9]{1,4})$"
