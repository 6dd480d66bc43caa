"""Secrets that pass through a session: masked wherever they are shown or exported, kept in the log."""

from __future__ import annotations

import json

import pytest
from hardship import HOOK, STATE, payload
from world import World

# Made up, of the shapes that issuers use; put together here so that no scanner takes this file for a leak.
SECRETS = {
    "header": "dGhpc2lzYXNlY3JldA0KxYzAbC123",
    "github": "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2,
    "anthropic": "sk-" + "ant-api03-" + "Zz9Yy8Xx7Ww6Vv5Uu4Tt3",
    "aws": "AKIA" + "IOSFODNN7EXAMPLQ",
    "url": "hunter2hunter2",
    "env": "c0rrect-h0rse-battery",
    "pem": "MIIEowIBAAKCAQEAu1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffAt0gun",
}
COMMAND = (
    f"curl -H 'Authorization: Bearer {SECRETS['header']}' https://user:{SECRETS['url']}@example.com -o ~/out; "
    f"GITHUB_TOKEN={SECRETS['github']} DB_PASSWORD='{SECRETS['env']}' deploy"
)
OUTPUT = "\n".join([
    f"> Authorization: Bearer {SECRETS['header']}",
    f"ANTHROPIC_API_KEY={SECRETS['anthropic']}",
    f"aws_access_key_id = {SECRETS['aws']}",
    f"-----BEGIN RSA PRIVATE KEY-----\n{SECRETS['pem']}\n-----END RSA PRIVATE KEY-----",
    f"deploy: cannot open '/home/dev/out': Permission denied (token={SECRETS['github']})",
])  # fmt: skip
WORDS = f"I could not write /home/dev/out: permission denied. The token {SECRETS['github']} was not the problem."


@pytest.fixture
def seen(world: World) -> World:
    """A session over which hooks have told all that."""
    call = {"tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"command": COMMAND}}
    texts = [
        payload("SessionStart", source="startup"),
        payload("UserPromptSubmit", prompt=f"use {SECRETS['anthropic']}"),
        payload("PreToolUse", **call),
        payload("PostToolUseFailure", **call, error=f"Exit code 1\n{OUTPUT}"),
        payload("Notification", message=f"Claude needs your permission to use {SECRETS['github']}"),
        payload("Stop", last_assistant_message=WORDS, stop_hook_active=False),
    ]
    for number, text in enumerate(texts):
        world.write(f"p{number}", text)
    script = f"for n in {' '.join(map(str, range(len(texts))))}; do {HOOK} < p$n; done"
    assert world.run(["nd7", "run", "bash", "-c", script]).code == 0
    return world


def leaks(text: str) -> list[str]:
    """The names of the secrets that a text holds, or the greater part of."""
    flat = "".join(text.split())
    return [name for name, secret in SECRETS.items() if secret[:20] in flat or secret[-20:] in flat]


def test_the_log_keeps_everything_for_its_owner(seen: World) -> None:
    raw = seen.read(f"{STATE}/sessions/s-1/events.ndjson")
    assert [name for name, secret in SECRETS.items() if secret not in raw] == []
    assert seen.path(f"{STATE}/sessions/s-1/events.ndjson").stat().st_mode & 0o777 == 0o600
    assert seen.run(["nd7", "verify", "s-1"]).code == 0


@pytest.mark.parametrize("form", ["json", "csv", "md"])
def test_exports(seen: World, form: str) -> None:
    done = seen.run(["nd7", "export", "--format", form])
    assert done.code == 0 and "[masked]" in done.out and "deploy" in done.out
    assert leaks(done.out) == []


def test_what_commands_list(seen: World) -> None:
    for words in (["denials"], ["sessions"], ["denials", "--all"]):
        done = seen.run(["nd7", *words])
        assert leaks(done.out + done.err) == [], (words, done)


def test_the_dashboard(seen: World) -> None:
    screen = seen.terminal(["nd7", "tui"], size=(160, 48))
    screen.wait_for("/out")
    for keys in (["4"], ["Enter"], ["End"], ["Escape"], ["Down"], ["Enter"], ["Escape"]):
        screen.keys(*keys, pause=0.5)
        text = screen.screen(history=200)
        assert leaks(text) == [], (keys, text)
    assert "[masked]" in text or "[masked]" in screen.screen()


def test_the_past(seen: World) -> None:
    screen = seen.terminal(["nd7", "tui"], size=(160, 48))
    screen.wait_for("/out")
    screen.keys("h", pause=1.0)
    screen.wait_for(lambda text: "/out" in text and "detail" not in text)
    shown = ""
    for keys in (["Down"], ["Enter"], ["End"], ["Escape"]):
        screen.keys(*keys, pause=1.0)
        text = screen.screen(history=200)
        shown += text
        assert leaks(text) == [], (keys, text)
    assert "[masked]" in shown


@pytest.mark.parametrize("words", [["denials", "--json"], ["export"], ["export", "--format", "csv"]])
def test_a_flag_shows_them(seen: World, words: list[str]) -> None:
    masked = seen.run(["nd7", *words])
    assert leaks(masked.out) == [] and "[masked]" in masked.out
    shown = seen.run(["nd7", *words, "--show-secrets"])
    assert {"github", "header", "env", "url"} <= set(leaks(shown.out))
    if words == ["denials", "--json"]:
        rows = [json.loads(line) for line in shown.out.splitlines()]
        assert any(SECRETS["github"] in row["command"] for row in rows)
    assert "NOT masked" in seen.run(["nd7", "export", "--format", "md", "--show-secrets"]).out


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_explaining(seen: World, words: list[str]) -> None:
    seen.write("failure", f"cannot open '/srv/x' with token={SECRETS['github']}: Permission denied\n")
    for secrets in ([], ["--show-secrets"]):
        script = f"nd7 explain --command 'deploy /srv/x' --exit 1 {' '.join(words + secrets)} < failure"
        done = seen.run(["bash", "-c", script])
        assert done.code == 0 and "/srv/x" in done.out, done
        assert leaks(done.out) == (["github"] if secrets else []), done
