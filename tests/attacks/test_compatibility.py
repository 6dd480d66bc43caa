"""What people run in a session: it works, or is refused in a way that is written down here.

Each program runs with its home unwritable as in a real session, with namespaces and without.  What is not
installed on the machine that runs the tests is not in the list there; `.ci/run` installs what matters.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import confined
import pytest
import services
from confined import BARE, FULL, Cell, Targets

UIDS = (confined.UNPRIVILEGED, 0) if os.getuid() == 0 else (os.getuid(),)


@dataclass(frozen=True)
class Program:
    """A shell script, what it must print, and what is refused in it if it is one that cannot work.

    Attributes:
        needs: the programs without which it is left out.
        prints: must be in what comes back.
        refused: if not empty, it must fail, and this is what it says.
        bare: what it says without namespaces, where that is something else; it must fail there.
    """

    name: str
    needs: tuple[str, ...]
    script: str
    prints: str = "all fine"
    refused: str = ""
    bare: str = ""


WORKS = [
    Program("sh", ("sh",), "echo all fine"),
    Program("redirections", ("bash",), "echo x > a; cat < a >> b; cat b >/dev/stderr; echo all fine >/dev/stdout"),
    Program("here-documents", ("bash",), "cat <<< 'all fine'"),
    Program("background-jobs", ("bash",), "sleep 60 & kill $!; wait $! ; test $? = 143 && echo all fine"),
    Program("job-control-group", ("bash",), "set -m; sleep 60 | sleep 60 & kill -- -$!; wait; echo all fine"),
    Program("nice", ("nice",), "nice -n 5 true && renice -n 7 $$ && echo all fine"),
    Program("ulimit", ("bash",), "ulimit -n 100 && ulimit -c 0 && echo all fine"),
    Program("taskset", ("taskset",), "taskset -c 0 true && taskset -p $$ && echo all fine"),
    Program("find-and-grep", ("find", "grep"), "grep -rl x . > out; find . -name out -exec echo all fine ';'"),
    Program("tar", ("tar",), "mkdir d && touch d/f && tar czf d.tgz d && tar xzf d.tgz && echo all fine"),
    Program("ps", ("ps",), "ps aux | grep -q $$ && echo all fine"),
    Program("script", ("script",), "script -qec 'tty; echo all fine' /dev/null", bare="pseudo-terminal: Perm"),
    Program("git", ("git",), """
        git init -q r && cd r && git config user.email a@b && git config user.name n && git config commit.gpgsign false
        echo 1 > f && git add f && git commit -qm one && git worktree add -q ../w && cd ../w && echo 2 >> f
        git commit -qam two && git -C ../r merge -q w
        git -C ../r log --oneline | wc -l | grep -q 2 && git gc -q && echo all fine
    """),
    Program("git-clone-https", ("git",), """
        export GIT_SSL_CAINFO=$CERT
        git clone -q https://server.example/repo.git c && cat c/hello
    """),
    Program("curl", ("curl",), "curl -sS --cacert $CERT https://server.example/hello"),
    Program("curl-by-address", ("curl",), "curl -sS --cacert $CERT https://127.0.0.1/hello"),
    Program("wget", ("wget",), "wget -qO- --ca-certificate=$CERT https://server.example/hello"),
    Program("getent", ("getent",), "getent ahosts server.example | grep -q 127.0.0.1 && echo all fine"),
    Program("dig", ("dig",), "dig +short server.example | grep -q 127.0.0.1 && echo all fine"),
    Program("python-https", ("python3",), """
        python3 -c 'import os, ssl, urllib.request as u
        c = ssl.create_default_context(cafile=os.environ["CERT"])
        print(u.urlopen("https://server.example/hello", context=c).read().decode())'
    """),
    Program("python-asyncio-https", ("python3",), """
        python3 -c 'import asyncio, os, ssl
        async def main():
            c = ssl.create_default_context(cafile=os.environ["CERT"])
            r, w = await asyncio.open_connection("server.example", 443, ssl=c)
            w.write(b"GET /hello HTTP/1.0\\r\\n\\r\\n"); print((await r.read()).decode())
        asyncio.run(main())'
    """),
    Program("node-fetch", ("node",), """
        NODE_EXTRA_CA_CERTS=$CERT node -e 'fetch("https://server.example/hello").then(r => r.text()).then(console.log)'
    """),
    Program("node-resolver", ("node",), """
        node -e 'require("dns").resolve4("server.example", (e, a) =>
        console.log(e || (a[0] == "127.0.0.1" && "all fine")))'
    """),
    Program("node-children", ("node",), """
        cat > child.js <<'J'
        process.on("message", m => { process.send(m + 1); process.disconnect() })
        J
        node -e 'const c = require("child_process"); c.execFileSync("true"); const f = c.fork("./child.js");
        f.on("message", m => console.log(m == 2 && "all fine")); f.send(1)'
    """),
    Program("node-workers", ("node",), """
        node -e 'const { Worker } = require("worker_threads");
        new Worker("require(\\"worker_threads\\").parentPort.postMessage(7)", { eval: true })
        .on("message", m => console.log(m == 7 && "all fine"))'
    """),
    Program("npm-run", ("npm",), """
        echo '{"name": "x", "version": "1.0.0", "scripts": {"t": "echo all fine"}}' > package.json && npm run -s t
    """),
    Program("npm-ci-from-a-file", ("npm",), """
        mkdir dep && echo '{"name": "dep", "version": "1.0.0"}' > dep/package.json
        echo '{"name": "y", "version": "1.0.0", "dependencies": {"dep": "file:dep"}}' > package.json
        export npm_config_cache=$TMPDIR/npm
        npm install --silent --no-audit --no-fund && npm ci --silent --no-audit --no-fund
        ls node_modules | grep -q dep && echo all fine
    """),
    Program("pip-install-from-a-directory", ("python3",), """
        python3 -m venv --without-pip v && mkdir -p pkg && echo 'print("all fine")' > pkg/mod_x.py
        PYTHONPATH=pkg v/bin/python -m mod_x
    """),
    Program("pip-install-of-a-wheel", ("python3",), """
        cat > wheel.py <<'P'
        import zipfile
        with zipfile.ZipFile("w_x-1.0-py3-none-any.whl", "w") as z:
            z.writestr("w_x.py", "print('all fine')")
            z.writestr("w_x-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: w-x\\nVersion: 1.0\\n")
            z.writestr("w_x-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
            z.writestr("w_x-1.0.dist-info/RECORD", "")
        P
        python3 wheel.py && python3 -m venv v && v/bin/pip install -q --no-index ./w_x-1.0-py3-none-any.whl
        v/bin/python -m w_x
    """),
    Program("multiprocessing-pool", ("python3",), """
        python3 -c 'import multiprocessing as m
        with m.get_context("fork").Pool(2) as p: print(p.map(abs, [-1, -2]) == [1, 2] and "all fine")'
    """),
    Program("multiprocessing-spawn", ("python3",), """
        cat > s.py <<'P'
        import multiprocessing as m
        def f(q): q.put("all fine")
        if __name__ == "__main__":
            c = m.get_context("spawn"); q = c.Queue(); p = c.Process(target=f, args=(q,))
            p.start(); print(q.get()); p.join()
        P
        python3 s.py
    """),
    Program("process-pool-executor", ("python3",), """
        python3 -c 'from concurrent.futures import ProcessPoolExecutor as P
        with P(2) as p: print(list(p.map(abs, [-3])) == [3] and "all fine")'
    """),
    Program("asyncio-subprocess", ("python3",), """
        python3 -c 'import asyncio
        async def main():
            p = await asyncio.create_subprocess_exec("echo", "all fine"); await p.wait()
        asyncio.run(main())'
    """),
    Program("python-shared-memory", ("python3",), """
        python3 -c 'from multiprocessing import shared_memory as s
        m = s.SharedMemory(create=True, size=16); m.buf[0] = 1; m.close(); m.unlink(); print("all fine")'
    """),
    Program("sqlite", ("sqlite3",), """
        sqlite3 db 'create table t(x); insert into t values (1); pragma journal_mode=wal; select upper("x") from t' &&
        sqlite3 db 'select "all " || "fine"'
    """),
    Program("sqlite-python", ("python3",), """
        python3 -c 'import sqlite3; c = sqlite3.connect("p.db")
        c.execute("create table t(x)"); c.commit(); print("all fine")'
    """),
    Program("gcc", ("gcc",), "printf 'int main(){return 0;}' > m.c && gcc -pipe -o m m.c && ./m && echo all fine"),
    Program("make", ("make", "gcc"), """
        for i in 1 2 3 4 5 6; do printf "int f$i(void){return $i;}" > f$i.c; done
        printf 'all: f1.o f2.o f3.o f4.o f5.o f6.o\\n' > Makefile && make -s -j4 && test -f f6.o && echo all fine
    """),
    Program("vim", ("vim",), "echo a > v.txt; vim -u NONE -es -c '%s/a/all fine/' -c wq v.txt < /dev/null; cat v.txt"),
    Program("ssh-G", ("ssh",), "ssh -G -F /dev/null example.com | grep -q 'hostname example.com' && echo all fine"),
    Program("gpg-version", ("gpg",), "GNUPGHOME=$PWD gpg --batch --list-keys; echo all fine"),
    Program("strace", ("strace",), "strace -f -o trace sh -c true && grep -q exit_group trace && echo all fine"),
    Program("gdb", ("gdb",), "gdb -q -batch -ex run -ex 'print 40+2' true 2>&1 | grep -q '= 42' && echo all fine"),
    Program("rsync-local", ("rsync",), "mkdir s d2; echo x > s/f; rsync -a s/ d2/ && test -f d2/f && echo all fine"),
    Program("cargo-build", ("cargo",), """
        export CARGO_TARGET_DIR=$TMPDIR/target
        mkdir -p k/src && printf '[package]\\nname="k"\\nversion="0.1.0"\\nedition="2021"\\n' > k/Cargo.toml
        echo 'fn main() { println!("all fine") }' > k/src/main.rs
        cd k && CARGO_HOME=$TMPDIR/ch cargo run -q --offline
    """),
    Program("go-build", ("go",), """
        export GOCACHE=$TMPDIR/gc GOPATH=$TMPDIR/gp GOFLAGS=-mod=mod GOTOOLCHAIN=local
        mkdir -p g && cd g && printf 'module g\\n' > go.mod
        cat > m.go <<'G'
        package main
        import ("context"; "net")
        func main() {
            r := net.Resolver{PreferGo: true}
            a, e := r.LookupHost(context.Background(), "server.example")
            if e == nil && len(a) > 0 { println("all fine") }
        }
        G
        CGO_ENABLED=0 go build -o g . && ./g 2>&1
    """),
    Program("java", ("java",), """
        echo 'class M { public static void main(String[] a) { System.out.println("all fine"); } }' > M.java
        java M.java
    """),
    Program("ruby", ("ruby",), "ruby -e 'puts `echo all fine`'"),
    Program("perl", ("perl",), "perl -e 'print `echo all fine`'"),
    Program("zsh", ("zsh",), "zsh -fc 'print all fine > z; cat z'"),
    Program("pytest", ("python3",), """
        echo 'def test_x(tmp_path): (tmp_path / "f").write_text("x")' > test_one.py
        $PYTEST -m pytest -q -p no:cacheprovider --basetemp=$TMPDIR/pt test_one.py && echo all fine
    """),
    Program("flock", ("flock",), "flock l true && echo all fine"),
    Program("mkfifo", ("mkfifo",), "mkfifo p; echo all fine > p & cat p"),
    Program("long-pipe", ("bash",), "yes | head -c 10000000 | wc -c | grep -q 10000000 && echo all fine"),
    Program("setsid", ("setsid",), "setsid -w echo all fine"),
    Program("timeout", ("timeout",), "timeout 0.1 sleep 9; test $? = 124 && echo all fine"),
]  # fmt: skip

REFUSED = [
    Program("multiprocessing-manager", ("python3",), """
        python3 -c 'import multiprocessing as m; m.Manager()'
    """, refused="PermissionError"),
    Program("multiprocessing-forkserver", ("python3",), """
        cat > fs.py <<'P'
        import multiprocessing as m
        def f(): pass
        if __name__ == "__main__":
            p = m.get_context("forkserver").Process(target=f); p.start(); p.join()
        P
        python3 fs.py
    """, refused="PermissionError"),
    Program("tmux", ("tmux",), "tmux -S $TMPDIR/t new -d 'sleep 9'", refused="Operation not permitted"),
    Program("ssh-agent", ("ssh-agent",), "ssh-agent -a $TMPDIR/agent", refused="Operation not permitted"),
    Program("gpg-key", ("gpg",), """
        mkdir -m 700 g; gpg --homedir g --batch --passphrase '' --quick-gen-key x@example.com
    """, refused="gent"),
    Program("ssh", ("ssh",), """
        ssh -F /dev/null -o StrictHostKeyChecking=no -o ConnectTimeout=5 git@server.example true
    """, refused="port 22: Permission denied"),
    Program("git-over-ssh", ("git", "ssh"), """
        GIT_SSH_COMMAND='ssh -F /dev/null -o ConnectTimeout=5' git clone -q git@server.example:x.git
    """, refused="Permission denied"),
    Program("git-commit-signed", ("git", "gpg"), """
        git init -q s && cd s && git -c user.name=n -c user.email=a@b -c gpg.program=gpg commit -qS --allow-empty -m x
    """, refused="failed to"),
    Program("node-server", ("node",), """
        node -e 'require("http").createServer().listen(3000)'
    """, refused="EACCES"),
    Program("python-server", ("python3",), "timeout 9 python3 -m http.server 3000", refused="Permission denied"),
    Program("curl-other-port", ("curl",), "curl -sS http://127.0.0.1:3000/", refused="connect to"),
    Program("unshare", ("unshare",), "unshare -r true", refused="Operation not permitted"),
    Program("bwrap", ("bwrap",), "bwrap --ro-bind / / true", refused="ermi"),
    Program("docker-socket", ("curl",), "curl -sS --unix-socket /var/run/docker.sock http://x/", refused="connect to"),
    Program("write-outside", ("bash",), "echo x > ~/new", refused="Read-only file system", bare="Permission denied"),
    Program("mode-outside", ("chmod",), "chmod 600 ~/notes.txt", refused="Read-only", bare="Permission denied"),
    Program("read-ssh-key", ("cat",), "cat ~/.ssh/id_ed25519", refused="Permission denied"),
    Program("npm-cache-in-the-home", ("npm",), """
        mkdir z && echo '{"name": "z", "version": "1.0.0"}' > z/package.json
        (cd z && npm pack --silent --cache $TMPDIR/n)
        npm cache add ./z/z-1.0.0.tgz --cache ~/.npm
    """, refused="Log files were not written"),
    Program("ping", ("ping",), "ping -c 1 127.0.0.1", refused="ermi"),
]  # fmt: skip


def available(program: Program, uid: int) -> bool:
    """Whether a user finds all that a program needs; root may have installed things in its own home."""
    paths = [shutil.which(name) for name in program.needs]
    return all(path and (uid == 0 or uid == os.getuid() or not path.startswith("/root/")) for path in paths)


def runs(programs: list[Program]) -> list[object]:
    """(configuration and uid, program) for every program that is there, grouped by the first."""
    cells = [*((FULL, uid) for uid in UIDS), (BARE, UIDS[0])]
    return [
        pytest.param((config, uid), program, id=f"{config.name}-uid{uid}-{program.name}")
        for config, uid in cells
        for program in programs
        if available(program, uid)
    ]


def publish(top: str) -> str:
    """A directory with a file and a git repository, for the HTTPS server."""
    www = os.path.join(top, "www")
    os.mkdir(www)
    Path(www, "hello").write_text("all fine\n")
    work = os.path.join(top, "work")
    git = ["git", "-c", "user.email=a@b", "-c", "user.name=n", "-c", "commit.gpgsign=false"]
    clean = {"HOME": top, "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run([*git, "init", "-q", work], check=True, env=clean)
    Path(work, "hello").write_text("all fine\n")
    subprocess.run([*git, "-C", work, "add", "."], check=True, env=clean)
    subprocess.run([*git, "-C", work, "commit", "-qm", "one"], check=True, env=clean)
    subprocess.run([*git, "clone", "-q", "--bare", work, os.path.join(www, "repo.git")], check=True, env=clean)
    subprocess.run([*git, "-C", os.path.join(www, "repo.git"), "update-server-info"], check=True, env=clean)
    return www


@pytest.fixture(scope="module")
def cell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    def serve(heard: dict[str, socket.socket], top: str) -> NoReturn:
        services.serve(heard, os.path.join(top, "tls"), os.path.join(top, "www"))

    def prepare(targets: Targets) -> None:
        top = os.path.dirname(targets.home)
        publish(top)
        os.mkdir(os.path.join(top, "tls"))
        services.certificate(os.path.join(top, "tls"))
        subprocess.run(["chmod", "-R", "a+rX", top + "/www", top + "/tls"], check=True)

    with confined.cell(*request.param, prepare=prepare, serve=serve) as made:
        yield made


def run(cell: Cell, program: Program) -> confined.Outcome:
    place = os.path.join(cell.targets.project, program.name)
    top = os.path.dirname(cell.targets.home)
    script = "\n".join(line.removeprefix("        ") for line in program.script.strip("\n").split("\n"))
    return cell.execute(
        ["bash", "-c", f"mkdir -p {place} && cd {place} || exit 99\n{script}"],
        env={
            "TMPDIR": cell.targets.tmp,
            "CERT": top + "/tls/cert.pem",
            "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
            "PYTEST": sys.executable,
            # A cargo that is rustup's front looks for its tool chains in the home.
            "RUSTUP_HOME": os.path.join(os.path.dirname(shutil.which("cargo") or "/a/b/c"), "../../.rustup"),
        },
    )


def said(cell: Cell, program: Program) -> str:
    """What a program must be refused with in this cell, or "" where it must work."""
    return (program.bare or program.refused) if cell.config is BARE else program.refused


@pytest.mark.parametrize(("cell", "program"), runs([*WORKS, *REFUSED]), indirect=["cell"])
def test_it_works_or_is_refused_in_these_words(cell: Cell, program: Program) -> None:
    outcome = run(cell, program)
    if refusal := said(cell, program):
        assert outcome.value not in (0, 99), outcome.text
        assert refusal in outcome.text
    else:
        assert outcome.value == 0 and program.prints in outcome.text, outcome.text
