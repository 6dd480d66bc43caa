"""What a test's report quotes refused nobody anything; a test whose own call was refused still tells of it."""

from __future__ import annotations

import pytest

from nd7core.attribution import Failure, Verdict, explain

HOME, PROJECT = "/home/ada", "/home/ada/kiln"
OUT = "/home/ada/work/out.txt"


def verdict(command: str, output: str) -> Verdict:
    return explain(Failure(command=command, output=output, exit_code=1, project=PROJECT, home=HOME))


QUOTED = {
    "pytest, the words compared": (
        "pytest -q",
        f"""
    def test_words():
>       assert words(PermissionError(13, "Permission denied", "{OUT}")) == "cannot save"
E       AssertionError: assert 'cannot save:...ission denied' == 'cannot save'
E
E         - cannot save
E         + cannot save: Permission denied

tests/test_words.py:3: AssertionError
FAILED tests/test_words.py::test_words - AssertionError: assert 'cannot save:...ission denied' == 'ca...
1 failed in 0.10s""",
    ),
    "pytest, the whole error compared": (
        "python -m pytest tests",
        f"""    def test_shown():
        err = OSError(13, "Permission denied", "{OUT}")
        shown = show(err)
>       assert shown == "no"
E       assert "[Errno 13] P...ork/out.txt'" == 'no'
E
E         - no
E         + [Errno 13] Permission denied: '{OUT}'

tests/test_shown.py:5: AssertionError
1 failed in 0.02s""",
    ),
    "pytest, a stand-in throws": (
        "pytest",
        f"""            if effect is not None:
                if _is_exception(effect):
>                   raise effect
E                   PermissionError: [Errno 13] Permission denied: '{OUT}'

/usr/lib/python3.11/unittest/mock.py:1183: PermissionError
1 failed in 0.09s""",
    ),
    "pytest, a list of lines": (
        "pytest",
        f"""    def test_log(log):
>       assert log == []
E       assert ['open {OUT}: Permission denied'] == []
E
E         Left contains one more item: 'open {OUT}: Permission denied'
E         Use -v to get more diff

tests/test_log.py:4: AssertionError""",
    ),
    "unittest, two strings": (
        "python -m unittest",
        f"""FAIL: test_words (test_words.Words.test_words)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "{PROJECT}/test_words.py", line 7, in test_words
    self.assertEqual(words(e), "cannot save")
AssertionError: 'cannot save: Permission denied' != 'cannot save'
- cannot save: Permission denied
+ cannot save


----------------------------------------------------------------------
Ran 1 test in 0.001s

FAILED (failures=1)""",
    ),
    "unittest, a stand-in throws": (
        "python -m unittest",
        f"""ERROR: test_save (test_save.Save.test_save)
Traceback (most recent call last):
  File "{PROJECT}/save.py", line 3, in save
    open(path, "w")
  File "/usr/lib/python3.11/unittest/mock.py", line 1183, in _execute_mock_call
    raise effect
PermissionError: [Errno 13] Permission denied: '{OUT}'

Ran 1 test in 0.001s""",
    ),
    "jest, the code of an error": (
        "npx jest",
        """FAIL ./save.test.js
  ● rejects

    expect(received).toEqual(expected) // deep equality

    - Expected  - 1
    + Received  + 1

      Object {
    -   "code": "EPERM",
    +   "code": "EACCES",
      }

    > 1 | test("rejects",()=>{expect({code:"EACCES"}).toEqual({code:"EPERM"})})
        |                                              ^

      at Object.toEqual (save.test.js:1:52)""",
    ),
    "jest, a stand-in rejects": (
        "npx jest save",
        f"""FAIL src/save.test.ts
  ● saves

    EACCES: permission denied, open '{OUT}'

      4 | test("saves", async () => {{
    > 5 |   fs.writeFile = () => {{ throw new Error("EACCES: permission denied, open '{OUT}'") }}
        |                                ^
      6 |   await save()

      at fs.writeFile (src/save.test.ts:5:32)""",
    ),
    "vitest, the message": (
        "npx vitest run",
        f"""AssertionError: expected 'EACCES: permission denied, open \\'{OUT}\\'' to be 'cannot save'

Expected: "cannot save"
Received: "EACCES: permission denied, open '{OUT}'"

 ❯ src/save.test.ts:4:20
      2|
      3| test('save', () => {{
      4|   expect(show(new Error("EACCES: permission denied, open '{OUT}'"))).toBe('cannot save')
       |                    ^""",
    ),
    "mocha, the code": (
        "npx mocha",
        """  1 failing

  1) save
       rejects:

      AssertionError: expected 'EACCES' to equal 'EPERM'
      + expected - actual

      -EACCES
      +EPERM

      at Context.<anonymous> (test/save.js:5:20)""",
    ),
    "node's own assert": (
        "node --test",
        f"""AssertionError [ERR_ASSERTION]: Expected values to be strictly equal:
+ actual - expected

+ 'EACCES: permission denied, open {OUT}'
- 'cannot save'""",
    ),
    "go, got and want": (
        "go test ./...",
        f"""--- FAIL: TestSave (0.00s)
    save_test.go:12: got "open {OUT}: permission denied", want "cannot save"
FAIL""",
    ),
    "go with testify": (
        "go test ./...",
        f"""--- FAIL: TestSave (0.00s)
    save_test.go:12:
        \tError Trace:\tsave_test.go:12
        \tError:      \tNot equal:
        \t            \texpected: "cannot save"
        \t            \tactual  : "open {OUT}: permission denied"
        \t            \t
        \t            \tDiff:
        \t            \t--- Expected
        \t            \t+++ Actual
        \t            \t@@ -1 +1 @@
        \t            \t-cannot save
        \t            \t+open {OUT}: permission denied
        \tTest:       \tTestSave
FAIL""",
    ),
    "cargo, left and right": (
        "cargo test",
        """---- tests::save stdout ----

thread 'tests::save' panicked at src/lib.rs:9:9:
assertion `left == right` failed
  left: "Permission denied (os error 13)"
 right: "cannot save"
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace""",
    ),
    "rspec, expected and got": (
        "bundle exec rspec",
        f"""  1) Save shows
     Failure/Error: expect(show(Errno::EACCES.new("{OUT}"))).to eq("cannot save")

       expected: "cannot save"
            got: "Permission denied - {OUT}"

       (compared using ==)""",
    ),
    "phpunit, two strings": (
        "vendor/bin/phpunit",
        f"""1) SaveTest::testShow
Failed asserting that two strings are equal.
--- Expected
+++ Actual
@@ @@
-'cannot save'
+'fopen({OUT}): Failed to open stream: Permission denied'

{PROJECT}/tests/SaveTest.php:9""",
    ),
}


@pytest.mark.parametrize("name", QUOTED)
def test_what_a_report_quotes(name: str) -> None:
    found = verdict(*QUOTED[name])
    assert found.source == "none", found


REFUSED = {
    "pytest": (
        "pytest -q",
        f"""    def test_save():
>       with open("{OUT}", "w") as f:
             ^^^^^^^^^^^^^^^
E       PermissionError: [Errno 13] Permission denied: '{OUT}'

tests/test_save.py:3: PermissionError
FAILED tests/test_save.py::test_save - PermissionError: [Errno 13] Permission denied: '{OUT}'""",
    ),
    "pytest, in a fixture of pathlib's": (
        "python -m pytest",
        f"""self = PosixPath('{OUT}'), mode = 511

    def mkdir(self, mode=0o777, parents=False, exist_ok=False):
        try:
>           os.mkdir(self, mode)
E           PermissionError: [Errno 13] Permission denied: '{OUT}'

/usr/lib/python3.11/pathlib.py:1116: PermissionError""",
    ),
    "pytest, beside a comparison that failed": (
        "pytest -q",
        f"""    def test_sum():
>       assert "a" == "b"
E       AssertionError: assert 'a' == 'b'
E
E         - b
E         + a

tests/test_sum.py:3: AssertionError
____ test_save ____

    def test_save():
>       Path("{OUT}").write_text("x")
E       PermissionError: [Errno 13] Permission denied: '{OUT}'

tests/test_save.py:3: PermissionError""",
    ),
    "pytest, a login shell's words below a comparison": (
        "bash -lc 'python -m pytest -q; echo x > ~/work/out.txt'",
        f"""E       AssertionError: assert 'a' == 'b'
tests/test_sum.py:3: AssertionError
-bash: {OUT}: Permission denied""",
    ),
    "pytest, a command's own words": (
        "pytest -q",
        f"""    def test_cli():
>       assert subprocess.run(["touch", OUT], capture_output=True, text=True).returncode == 0
E       assert 1 == 0
E        +  where 1 = CompletedProcess(args=[], returncode=1, stderr="touch: cannot touch '{OUT}': Permission denied")

tests/test_cli.py:5: AssertionError""",
    ),
    "unittest": (
        "python -m unittest",
        f"""ERROR: test_save (test_save.Save.test_save)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "{PROJECT}/test_save.py", line 5, in test_save
    open("{OUT}", "w")
PermissionError: [Errno 13] Permission denied: '{OUT}'

----------------------------------------------------------------------
Ran 1 test in 0.001s""",
    ),
    "jest": (
        "npx jest",
        f"""FAIL ./save.test.js
  ● saves

    EACCES: permission denied, open '{OUT}'

      1 | const fs = require("fs")
    > 2 | test("saves", () => fs.writeFileSync("{OUT}", "x"))
        |                        ^

      at Object.writeFileSync (save.test.js:2:24)""",
    ),
    "vitest": (
        "npx vitest run",
        f""" FAIL  save.test.ts > saves
Error: EACCES: permission denied, open '{OUT}'
 ❯ save.test.ts:3:25
      1| import fs from 'node:fs'
      2| import {{ test }} from 'vitest'
      3| test('saves', () => fs.writeFileSync('{OUT}', 'x'))
       |                        ^

Serialized Error: {{ errno: -13, code: 'EACCES', syscall: 'open', path: '{OUT}' }}""",
    ),
    "mocha": (
        "npx mocha",
        f"""  1 failing

  1) saves:
     Error: EACCES: permission denied, open '{OUT}'
      at Object.writeFileSync (node:fs:2368:20)
      at Context.<anonymous> (test/save.js:2:27)""",
    ),
    "go": (
        "go test ./...",
        f"""--- FAIL: TestSave (0.00s)
    save_test.go:9: open {OUT}: permission denied
FAIL""",
    ),
    "go with testify": (
        "go test ./...",
        f"""--- FAIL: TestSave (0.00s)
    save_test.go:12:
        \tError Trace:\tsave_test.go:12
        \tError:      \tReceived unexpected error:
        \t            \topen {OUT}: permission denied
        \tTest:       \tTestSave
FAIL""",
    ),
    "cargo": (
        "cargo test",
        f"""thread 'tests::save' panicked at src/lib.rs:9:47:
cannot write {OUT}: Os {{ code: 13, kind: PermissionDenied, message: "Permission denied" }}
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace""",
    ),
    "rspec": (
        "bundle exec rspec",
        f"""  1) Save saves
     Failure/Error: File.write("{OUT}", "x")

     Errno::EACCES:
       Permission denied @ rb_sysopen - {OUT}
     # ./spec/save_spec.rb:3:in `write'""",
    ),
    "phpunit": (
        "vendor/bin/phpunit",
        f"""1) SaveTest::testSave
file_put_contents({OUT}): Failed to open stream: Permission denied

{PROJECT}/tests/SaveTest.php:7""",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_refused_the_test_itself(name: str) -> None:
    found = verdict(*REFUSED[name])
    assert (found.source, found.operation, found.remedy) == ("kernel", "write", "grant"), found
    assert OUT in (found.target, *found.targets), found


# Which places belong to the system where nobody has looked, and which may be a person's.
@pytest.mark.parametrize(
    "path", ["/var/www/shop/a", "/srv/data/a", "/opt/tool/a", "/data/set/a", "/mnt/disk/a", "/media/ada/stick/a"]
)
def test_a_place_that_may_be_a_persons(path: str) -> None:
    found = verdict(f"touch {path}", f"touch: cannot touch '{path}': Permission denied")
    assert (found.source, found.remedy) == ("kernel", "grant"), found


@pytest.mark.parametrize(
    "path",
    ["/etc/a/b", "/usr/share/a/b", "/var/lib/app/a", "/var/log/app/a", "/var/www/a", "/opt/a", "/boot/efi/a", "/a"],
)
def test_a_place_of_the_system(path: str) -> None:
    assert verdict(f"touch {path}", f"touch: cannot touch '{path}': Permission denied").source == "none"


UNZIP = """Archive:  /home/ada/kiln/d.zip
checkdir error:  cannot create docs
                 Permission denied
                 unable to process docs/."""


def test_a_name_of_unzip_is_in_the_folder_it_ran_in() -> None:
    found = verdict("cd ~/work && unzip -o ~/kiln/d.zip", UNZIP)
    assert (found.source, found.target, found.remedy) == ("kernel", "/home/ada/work/docs", "grant"), found


@pytest.mark.parametrize("option", ["--work-tree=/home/ada/work", "--work-tree /home/ada/work", "--work-tree=../work"])
def test_a_name_of_git_is_in_its_work_tree(option: str) -> None:
    found = verdict(f"git {option} checkout -f HEAD -- a.md", "error: unable to create file a.md: Permission denied")
    assert (found.source, found.target, found.remedy) == ("kernel", "/home/ada/work/a.md", "grant"), found


MOVED = """Traceback (most recent call last):
  File "/usr/lib/python3.11/shutil.py", line 825, in move
    os.rename(src, real_dst)
OSError: [Errno 18] Invalid cross-device link: 'docs' -> '/home/ada/work/docs'
"""
GOES_ON = """
During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/usr/lib/python3.11/shutil.py", line 459, in _copytree
    os.makedirs(dst, exist_ok=dirs_exist_ok)
"""


def test_the_last_exception_of_a_chain_decides() -> None:
    command = "python3 -c \"import shutil; shutil.move('docs', '/home/ada/work/docs')\""
    found = verdict(command, f"{MOVED}{GOES_ON}PermissionError: [Errno 13] Permission denied: '/home/ada/work/docs'")
    assert (found.source, found.target, found.remedy) == ("kernel", "/home/ada/work/docs", "grant"), found
    found = verdict(command, f"{MOVED}{GOES_ON}PermissionError: [Errno 13] Permission denied: '{PROJECT}/docs/a'")
    assert found.source == "none", found
    assert verdict(command, MOVED).remedy == "cannot-grant"
