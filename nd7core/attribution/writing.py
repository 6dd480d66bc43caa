"""Whether a command wants to write what an error says it could not read, parse or load.

Programs that rewrite their arguments, or make one file of another, word every failure as one of their input.  The
rules let a session read nearly everything, so a wrong "reading" blames ordinary permissions for nd7's own refusal.
Evidence is the command's: an output option, the last argument of a converter, an option to change files in place, a
temporary name beside an argument.  A sentence that says "reading" outweighs a mere rewriter, whose input it may be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from posixpath import basename

from nd7core.attribution import paths
from nd7core.attribution.finding import Finding, names
from nd7core.attribution.forms import READERS
from nd7core.attribution.shell import Simple, place

_OPTION = re.compile(
    r"-o|-O|-w|-f(?:print\w*|ls)|--?out(?:put|file)?(?:-\w+)?|--?[\w-]*out|--(?:dest|destination|save-to|write-to|"
    r"report-file|junit-?xml|log-file)"
)
_MOST_COMMANDS, _MOST_WORDS, _MOST_IN_ALL = 64, 64, 640  # each word is resolved for each finding
_OFTEN_ELSE = ("-O", "-w")  # of levels, widths and wrapping
_OF_READERS = {"sort": "-o", "tree": "-o", "find": "-fprint", "fd": ""}
_OPERAND = re.compile(r"of=|-o(?==?[~./])=?|-[A-Za-z]*OutputFile=|-W[lp],-\w+,")
# Programs whose last argument, of two or more, is what they make.
_LAST = names(
    "uniq xxd sass sassc lessc stylus rst2html rst2man rst2latex rst2html5 rst2odt pdftotext pdftohtml pdftoppm "
    "pdftocairo pdftops ps2pdf pdf2ps pdfunite pdfseparate ps2ascii eps2eps qpdf wkhtmltopdf wkhtmltoimage weasyprint "
    "convert magick ffmpeg sox lame heif-convert rsvg-convert gif2webp dwebp soffice objcopy cpp m4 iconv uglifycss "
    "csso svgo unoconv ogr2ogr gdal_translate gdalwarp potrace djvups mdb-export html2text xlsx2csv cp mv ln install "
    "rsync scp ditto opj_compress flac twopi babel markdown-pdf md-to-pdf glslc glslangValidator ttx fontforge"
)
# Programs that change their arguments whatever options they have, but for the ones that only check.
_REWRITERS = names(
    "black isort rustfmt pyupgrade add-trailing-comma reorder-python-imports dos2unix unix2dos mac2unix gzip gunzip "
    "bzip2 bunzip2 xz unxz zstd unzstd lzma compress uncompress jpegoptim optipng mogrify strip patch shred stylua "
    "ormolu fourmolu nixfmt alejandra swiftformat chmod chown chgrp touch truncate sponge ed ex pre-commit ssort"
)
_COMPRESSORS = names("gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lzma compress uncompress")
_CHANGES = re.compile(
    r"--(?:write|fix\w*|in-?place|apply|auto-?correct(?:-all)?|autofix|overwrite|replace|delete|remove)(?:=.*)?|-delete"
)
# The short ones mean something else to nearly every program.
_SHORT = {
    "-i": names(
        "sed gsed perl ruby autopep8 yapf docformatter clang-format autoflake cmake-format astyle yq uncrustify "
        "crudini xmlstarlet latexindent"
    ),
    "-w": names("gofmt goimports gofumpt prettier shfmt golines gci latexindent"),
    "-a": names("rubocop standardrb"),
    "-A": names("rubocop standardrb"),
    "-F": names("ktlint"),
    "-p": names("perl"),
}
_FORMATS = names("fmt format")
_CHECKS = re.compile(r"--(?:check\w*|diff|dry-run|list-different|test|stdout|to-stdout|show\w*|stdin\w*|list)")
_INSIDE_OF = names("npx pnpm yarn bunx uv uvx poetry pipenv bundle pipx hatch rye python python3 env")
_READS = re.compile(
    r"\b(?:read(?:s|ing)?|(?:open|scan|read)dir\w*|[lf]?stat|statx|readlink|realpath|list(?:ing|dir)?|access\w*|chdir|"
    r"getcwd)\b",
    re.IGNORECASE,
)
_BESIDE = re.compile(
    r"~\w*|#|[._-](?:tmp|temp|bak|backup|orig|original|new|part|partial|sw[op]|lock|lck|save)\w*(?:[._-]\w+)*|\.\d{4,}"
)
_NAME_ALONE = re.compile(r"\s*(?:[\w.+/-]+[\s\u00a0]?: )?\W{0,3}")
_COLON = re.compile(r"\W{0,3}: ")


def wants_to_write(
    commands: Iterable[Simple], finding: Finding, found: Sequence[str], home: str, platform: str
) -> bool:
    """Whether a command says that one of the refused paths is to be written.

    Args:
        found: what the finding names, resolved.
    """
    said = finding.line
    for printed in finding.paths:
        said = said.replace(printed, " ")
    reads = bool(_READS.search(said[:2000]))
    budget = _MOST_IN_ALL
    for simple in islice(commands, _MOST_COMMANDS):
        budget -= len(simple.words[:_MOST_WORDS])
        if budget < 0:
            break
        operands = [
            paths.canonical(place(word, simple.cwd, home), platform)
            for word in simple.words[:_MOST_WORDS]
            if word[:1] != "-"
        ]
        changes = not reads and simple.name not in READERS and rewrites(simple)
        for path in found:
            if path.startswith("/") and (
                _is_output(simple, path, operands, reads, home, platform)
                or _is_beside(simple, path, operands)
                or (changes and any(paths.inside(path, one) for one in operands))
            ):
                return True
    return False


def lists_only(finding: Finding) -> bool:
    """Whether a reader's line has nothing but its name and the path: what it could not look into.

    `find: '/a': ...` is of a folder that may not be listed; words around the path, in whatever language, are of what
    `find -delete` could not do.
    """
    before, _, behind = finding.line.partition(finding.paths[0])
    return bool(_NAME_ALONE.fullmatch(before)) and bool(_COLON.match(behind))


def rewrites(simple: Simple) -> bool:
    """Whether a command changes the files it is given in place, or removes what it finds."""
    words = simple.words[:_MOST_WORDS]
    if any(_CHECKS.fullmatch(word) for word in words if word[:1] == "-"):
        return False
    ran = {simple.name}
    if simple.name in _INSIDE_OF:
        ran.update(word for word in words[:4] if word[:1] != "-")
    short = [word for word in words if word[:1] == "-" and word[1:2] not in ("-", "")]
    if ran & _COMPRESSORS and any(set(word) & set("ctl") for word in short):
        return False
    if ran & _REWRITERS or any(_CHANGES.fullmatch(word) for word in words):
        return True
    bare = next((word for word in words if word[:1] != "-" and word not in ran), "")
    if bare in _FORMATS and simple.name not in READERS:
        return True
    return any(
        ran & programs and any(word.startswith(option) or (word[1:].isalpha() and option[1] in word) for word in short)
        for option, programs in _SHORT.items()
    )


def _is_output(simple: Simple, path: str, operands: list[str], reads: bool, home: str, platform: str) -> bool:
    words = simple.words[:_MOST_WORDS]

    def is_it(word: str) -> bool:
        return paths.canonical(place(word, simple.cwd, home), platform) == path

    own = _OF_READERS.get(simple.name, "") if simple.name in READERS else None
    for option, word in zip(("", *words), words, strict=False):
        outward = _OPTION.fullmatch(option) and own in (None, option) and not (reads and option in _OFTEN_ELSE)
        if outward and is_it(word):
            return operands.count(path) < 2  # given as input as well, it is the input that is told of
        name, _, value = word.partition("=")
        if value and _OPTION.fullmatch(name) and is_it(value):
            return True
        operand = _OPERAND.match(word)
        if operand and is_it(word[operand.end() :]):
            return True
    if simple.name not in _LAST or not operands:
        return False
    last = next(word for word in reversed(words) if word[:1] != "-")
    source, colon, made = last.rpartition(":")
    if colon and source and is_it(made):
        return True
    return len(operands) > 1 and operands[-1] == path and path not in operands[:-1]


def _is_beside(simple: Simple, path: str, operands: list[str]) -> bool:
    if path in operands:
        return False
    for one in operands:
        rest = path[len(one) :] if len(one) > 1 and path.startswith(one) else ""
        if not rest or "/" in rest:
            continue
        own = basename(simple.name)
        if _BESIDE.fullmatch(rest) or (len(own) > 2 and rest.startswith(f".{own}") and len(rest) < len(own) + 6):
            return True
    return False
