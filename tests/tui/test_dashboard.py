"""The first screen, driven by keys: what it shows, what it asks its parts to do, and what it says."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tui_rows
from textual.message import Message
from textual.widgets import Input
from tui_screen import picture, said, told

from nd7core.paths import Places
from nd7tui import keys, look
from nd7tui.app import Dashboard
from nd7tui.filters import HINT
from nd7tui.messages import Paused, Picked
from nd7tui.model import Batch, Row, SessionRow
from nd7tui.screens.dashboard import Main
from nd7tui.screens.help import Help
from nd7tui.screens.page import Page
from nd7tui.widgets.rowlist import RowList


class Quiet(Dashboard):
    """A dashboard whose outlooks and deeds are noted and not done."""

    def __init__(self, places: Places, **options: bool) -> None:
        super().__init__(places, follow=False, now=lambda: tui_rows.NOW, **options)
        self.granted: list[str] = []
        self.taken: list[tuple[int, str]] = []
        self.copied: list[str] = []

    def work_out(self, row: Row) -> None:
        """Nothing is looked up."""

    def peek(self, session: SessionRow) -> None:
        """Nothing is looked at."""

    def grant(self, row: Row) -> None:
        """Noted."""
        self.granted.append(row.id)

    def take_back(self, pid: int, path: str) -> None:
        """Noted."""
        self.taken.append((pid, path))

    def copy_to_clipboard(self, text: str) -> None:
        """Noted."""
        self.copied.append(text)

    def get_default_screen(self) -> Main:
        """Without the curtain, which has a test of its own."""
        return Main()

    def fill(self, batch: Batch | None = None) -> None:
        """As if the ingest thread had handed it over."""
        self.store.take(batch or tui_rows.batch(), tui_rows.NOW)
        self.changed()


def main_of(app: Dashboard) -> Main:
    screen = app.screen
    assert isinstance(screen, Main)
    return screen


async def test_it_starts_with_none_and_says_the_next_step(here: Places) -> None:
    app = Quiet(here)
    async with app.run_test(size=(120, 36)) as pilot:
        app.fill(Batch(sessions=(), caught_up=True))
        await pilot.pause()
        text = picture(app)
        assert "No sessions." in text and "nd7 run claude" in text and "nothing to watch yet" in text.lower()
        assert "0 live" in text


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60), (56, 14)])
async def test_what_one_sees(here: Places, size: tuple[int, int]) -> None:
    app = Quiet(here)
    async with app.run_test(size=size) as pilot:
        app.fill()
        await pilot.pause()
        text = picture(app)
        assert all(len(line) <= size[0] for line in text.splitlines())
        for word in ("▲ kernel", "□ open", "api-server", "1 waiting for you"):
            assert word in text, word
        await pilot.press("up", "up", "up", "up", "up")
        await pilot.pause()
        text = picture(app)
        assert "▲ kernel refused writing" in text
        assert "grant ~/.cache/uv to api-server's next Bash commands" in " ".join(text.split())
        assert not app.leaks


async def test_the_detail_has_all_that_is_asked_of_it(here: Places) -> None:
    app = Quiet(here)
    async with app.run_test(size=(120, 60)) as pilot:
        app.fill()
        await pilot.press("home")
        await pilot.pause()
        text = picture(app)
        for word in (
            "uv sync --frozen",  # what was run
            "exit 2",  # what came back
            "▸   Caused by: failed to open file",  # the line it rests on, marked by a glyph
            "The profile lets nothing be written in ~/.cache/uv",  # why
            "matched: the text, and the profile in force refuses exactly that",  # evidence
            "3 times in this session",
            "g  grant ~/.cache/uv",
        ):
            assert word in text, word


async def test_the_last_line_names_no_key_that_would_only_be_typed(here: Places) -> None:
    app = Quiet(here)
    async with app.run_test(size=(100, 30)) as pilot:
        app.fill()
        await pilot.press("slash")
        await pilot.pause()
        assert picture(app).splitlines()[-1].strip() == "Enter keep the filter  Esc as it was before"
        for key in ("enter", "slash", "escape"):
            await pilot.press(key)
            await pilot.pause()
            assert ("g grant" in picture(app).splitlines()[-1]) is (key != "slash"), key


def test_what_became_of_a_row_is_wrapped_and_not_cut() -> None:
    from nd7tui.detail import detail

    row = replace(tui_rows.rows()[0], state="open", count=41, first_ts=tui_rows.NOW - 10**9)
    for width in (40, 60, 75, 118):
        lines = [str(line.text) for line in detail(row, None, None, keys.caps({}), width)]
        assert all(len(line) <= width for line in lines[:6])
        told = " ".join(" ".join(lines).split())
        assert "nothing has been done about it; 41 times in this session, first at" in told, width
        assert f"first at {look.clock(tui_rows.NOW - 10**9)}" in told, width


async def test_following_pausing_and_what_is_new(here: Places) -> None:
    seen: list[Message] = []
    app = Quiet(here)
    async with app.run_test(size=(100, 30), message_hook=seen.append) as pilot:
        app.fill()
        await pilot.pause()
        stream = main_of(app).stream
        assert stream.following and stream.key == "3f0c/6"
        await pilot.press("up")
        await pilot.pause()
        assert not stream.following and stream.key == "3f0c/5"
        first = tui_rows.rows()[0]
        app.fill(Batch([replace(first, id=f"new{n}") for n in range(3)]))
        await pilot.pause()
        assert stream.key == "3f0c/5"  # rows that arrive never move the cursor
        assert "paused, 3 new" in picture(app)
        await pilot.press("space")
        await pilot.pause()
        assert stream.following and stream.key == "new2" and app.store.new == 0
        await pilot.press("space")
        await pilot.pause()
        assert not stream.following and stream.key == "new2"
    followed = [message.following for message in told(seen, Paused)]
    assert followed == [False, True, False]
    picked = [message.key for message in told(seen, Picked) if message.list_id == "stream"]
    assert picked[:3] == ["3f0c/6", "3f0c/5", "new2"]


async def test_sources_are_switched_and_their_counts_stay(here: Places) -> None:
    app = Quiet(here)
    async with app.run_test(size=(150, 36)) as pilot:
        app.fill()
        await pilot.press("4")
        await pilot.pause()
        assert "3f0c/3" in [app.store.row_at(n).id for n in range(len(app.store.view))]
        await pilot.press("1")
        await pilot.pause()
        text = picture(app)
        assert "▲ kernel 4 hidden" in text
        assert said(app) == "kernel: hidden"
        await pilot.press("2", "3", "4")
        await pilot.pause()
        assert "1, 2, 3 and 4 show each source again." in picture(app)


async def test_the_filter_shows_its_syntax_and_works_while_typing(here: Places) -> None:
    app = Quiet(here)
    async with app.run_test(size=(120, 36)) as pilot:
        app.fill()
        await pilot.press("slash")
        await pilot.pause()
        assert "source:k" in picture(app) and "6 of 7" in picture(app)
        await pilot.press(*"state:p")
        await pilot.pause()
        assert len(app.store.view) == 1 and "1 of 7" in picture(app)
        await pilot.press("x")
        await pilot.pause()
        assert "no state 'px'" in picture(app) and len(app.store.view) == 1
        await pilot.press("backspace", "enter")
        await pilot.pause()
        assert app.store.filter.text == "state:p" and "/state:p" in picture(app)
        assert main_of(app).focused is main_of(app).stream
        await pilot.press("escape")
        assert app.store.filter.text == "" and len(app.store.view) == 6
        await pilot.press("slash", *"uv", "escape")
        await pilot.pause()
        assert app.store.filter.text == "" and len(app.store.view) == 6


async def test_the_whole_syntax_is_shown_at_80_columns(here: Places) -> None:
    app = Quiet(here)
    async with app.run_test(size=(80, 24)) as pilot:
        app.fill()
        await pilot.press("slash")
        await pilot.pause()
        shown = picture(app).split()
        assert [word for word in HINT.split() if word not in shown] == []


async def test_keys_typed_into_the_filter_are_text(here: Places) -> None:
    app = Quiet(here)
    async with app.run_test(size=(120, 36)) as pilot:
        app.fill()
        await pilot.press("slash", *"gquGj1", "space", "question_mark")
        await pilot.pause()
        assert app.screen.query_one(Input).value == "gquGj1 ?"
        assert not app.granted and isinstance(app.screen, Main)


async def test_a_session_alone(here: Places) -> None:
    app = Quiet(here)
    async with app.run_test(size=(120, 36)) as pilot:
        app.fill()
        await pilot.press("shift+tab", "down", "down")
        await pilot.pause()
        assert app.store.only == "pid:5150"
        text = picture(app)
        assert "webshop" in text.splitlines()[0] and "127.0.0.1:3000" in text and "make release" not in text
        assert "1 event not in the log" in text  # its gap is shown
        await pilot.press("escape")
        await pilot.pause()
        assert app.store.only == "" and main_of(app).focused is main_of(app).stream
        await pilot.press("w")
        await pilot.pause()
        assert app.store.only == "pid:5150"


async def test_g_does_what_the_detail_says_or_says_why_not(here: Places) -> None:
    app = Quiet(here)
    async with app.run_test(size=(120, 36)) as pilot:
        app.fill()
        await pilot.press("home", "g")
        assert app.granted == ["3f0c/1"]
        for row, reason in (
            ("77aa/1", "cannot be granted"),
            ("3f0c/6", "cannot be granted"),
            ("3f0c/5", "nd7-exec could not run"),
        ):
            main_of(app).stream.select(row)
            await pilot.pause()
            await pilot.press("g")
            assert reason in said(app), row
            assert "g  nothing: " in picture(app)
        await pilot.press("4")
        main_of(app).stream.select("3f0c/3")
        await pilot.press("g")
        assert "no denial of nd7's" in said(app)
        assert app.granted == ["3f0c/1"]


async def test_u_takes_back_the_newest_grant_or_says_why_not(here: Places) -> None:
    app = Quiet(here)
    async with app.run_test(size=(120, 36)) as pilot:
        app.fill()
        await pilot.press("u")
        assert app.taken == [(4242, f"{tui_rows.HOME}/.cache/pip")]
        app.fill(Batch(sessions=()))
        await pilot.press("u")
        assert "no session has a grant" in said(app)


async def test_read_only_changes_nothing_and_says_so(here: Places) -> None:
    app = Quiet(here, read_only=True)
    async with app.run_test(size=(120, 36)) as pilot:
        app.fill()
        await pilot.press("home")
        await pilot.pause()
        assert "read-only" in picture(app).splitlines()[0]
        for key in ("g", "G", "u", "r", "n"):
            await pilot.press(key)
            assert "--read-only" in said(app), key
        assert not app.granted and not app.taken and isinstance(app.screen, Main)
        app.quiet()
        await pilot.pause()
        last = picture(app).splitlines()[-1]
        assert not any(word in last for word in ("g grant", "G wider", "undo", "n new")) and "a grants" in last
        await pilot.press("shift+tab", "down", "enter")
        assert "--read-only" in said(app) and "type" in said(app)
        assert "Enter attaches" not in picture(app)


async def test_what_is_said_is_never_cut_without_a_word(here: Places) -> None:
    app = Quiet(here)
    async with app.run_test(size=(80, 24)) as pilot:
        app.fill()
        app.say("a word " * 90)
        await pilot.pause()
        assert picture(app).rstrip().endswith("… (whole: l)")


async def test_the_session_that_was_started_here_is_selected(here: Places) -> None:
    app = Quiet(here)
    async with app.run_test(size=(80, 24)) as pilot:
        app.started = "pid:5150"
        app.fill()
        await pilot.pause()
        assert main_of(app).session_list.key == "pid:5150" and app.started == ""


async def test_a_program_that_tells_nothing_is_said_to_after_its_end(here: Places) -> None:
    app = Quiet(here)
    async with app.run_test(size=(120, 36)) as pilot:
        over = replace(tui_rows.sessions()[2], agent="bash", counts={}, mute=True)
        app.fill(Batch(sessions=(over,), caught_up=True))
        await pilot.pause()
        assert "bash (notes) is no agent that nd7 knows" in " ".join(picture(app).split())


async def test_q_on_a_sub_screen_goes_back_and_the_help_says_so(here: Places) -> None:
    app = Quiet(here)
    async with app.run_test(size=(100, 50)) as pilot:
        app.fill()
        await pilot.press("a", "question_mark")
        await pilot.pause()
        assert "back to the screen before" in picture(app) and "every session lives on" not in picture(app)
        assert "q leave" not in picture(app)


async def test_u_names_what_it_takes_back_and_whose(here: Places) -> None:
    app = Quiet(here)
    async with app.run_test(size=(120, 36)) as pilot:
        app.fill()
        main_of(app).stream.select("77aa/1")
        await pilot.pause()
        assert "u undo ~/.cache/pip (api-server)" in picture(app).replace(tui_rows.HOME, "~").splitlines()[-1]


async def test_y_copies_and_says_what(here: Places) -> None:
    app = Quiet(here)
    async with app.run_test(size=(120, 36)) as pilot:
        app.fill()
        await pilot.press("home", "y")
        assert app.copied == [f"{tui_rows.HOME}/.cache/uv/CACHEDIR.TAG"]
        assert said(app).startswith("copied: ")


async def test_no_key_is_silent(here: Places) -> None:
    """Each key of the table does something or says why not; a key of no table says that."""
    app = Quiet(here)
    async with app.run_test(size=(120, 36)) as pilot:
        app.fill(Batch(sessions=(), caught_up=True))
        await pilot.pause()
        for key in ("g", "G", "u", "y", "r", "p", "w", "space", "slash", "enter"):
            app.quiet()
            await pilot.press(key)
            assert said(app), key
            assert isinstance(app.screen, Main)
        await pilot.press("Z")
        assert "does nothing here" in said(app)


async def test_help_is_of_this_screen_and_tells_what_does_nothing_now(here: Places) -> None:
    app = Quiet(here)
    async with app.run_test(size=(100, 70)) as pilot:
        app.fill()
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(app.screen, Help)
        text = picture(app)
        for key in keys.of("dashboard"):
            assert key.does.split(",")[0][:40] in text.replace("\n", " "), key.id
        assert "not now: this cannot be granted" in text
        for state in look.STATE_MEANS.values():
            assert state[:40] in text
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(app.screen, Main)


async def test_a_small_terminal_is_told_so_kindly(here: Places) -> None:
    app = Quiet(here)
    async with app.run_test(size=(40, 20)) as pilot:
        app.fill()
        await pilot.pause()
        text = picture(app)
        assert "nd7 needs 56 columns" in text and "40 × 20" in text and "q leaves" in text
        await pilot.resize_terminal(100, 30)
        await pilot.pause()
        assert "▲ kernel" in picture(app)


async def test_q_leaves(here: Places) -> None:
    app = Quiet(here)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("q")
        await pilot.pause()
    assert app.return_code == 0


async def test_a_fault_of_our_own_prints_nothing_raw(here: Places, capsys: pytest.CaptureFixture[str]) -> None:
    """Textual would print the local variables, in which a session's text stands."""
    app = Quiet(here)
    with pytest.raises(ZeroDivisionError):
        async with app.run_test(size=(100, 30)) as pilot:
            app.fill()
            evil = "\x1b]52;c;eA==\x07\u202e"

            def fail() -> None:
                raise ZeroDivisionError(evil)

            app.call_later(fail)
            await pilot.pause()
    shown = capsys.readouterr().err
    assert "ZeroDivisionError" in shown and "Every session lives on" in shown
    assert "\x1b]" not in shown and "\u202e" not in shown and "\x07" not in shown


async def test_the_mouse(here: Places) -> None:
    app = Quiet(here)
    async with app.run_test(size=(120, 36)) as pilot:
        app.fill()
        await pilot.pause()
        await pilot.click("#stream", offset=(10, 1))
        assert main_of(app).stream.key == "3f0c/2"
        title = picture(app).splitlines()
        y = next(at for at, line in enumerate(title) if "1 ▲" in line)
        x = title[y].index("1 ▲") + 2
        await pilot.click(offset=(x, y))
        await pilot.pause()
        assert "kernel" in app.store.hidden


async def test_a_light_theme_and_back(here: Places) -> None:
    app = Quiet(here)
    async with app.run_test(size=(100, 30)) as pilot:
        app.fill()
        for name in ("nd7-light", "nd7-ansi", "nd7-dark"):
            await pilot.press("t")
            assert app.theme == name


async def test_a_million_rows_are_a_list_like_any_other(here: Places) -> None:
    """Mounted, paged and jumped through; only the rows in view are ever made."""
    from nd7core.text import safe
    from nd7tui.line import Line

    made: list[int] = []

    class Many:
        def __len__(self) -> int:
            return 1_000_000

        def key(self, place: int) -> str:
            return str(place)

        def place(self, key: str) -> int | None:
            return int(key)

        def line(self, place: int, width: int) -> Line:
            made.append(place)
            return Line().put(safe(f"row {place}"))

        def empty(self, width: int) -> list[Line]:
            return []

    class Big(Page):
        BINDINGS = [*keys.bindings("big")]

        def compose(self):
            yield RowList(Many(), id="many")

    app = Quiet(here)
    async with app.run_test(size=(80, 24)) as pilot:
        await app.push_screen(Big())
        await pilot.pause()
        app.screen.query_one(RowList).focus()
        await pilot.press("end")
        await pilot.pause()
        assert "row 999999" in picture(app)
        await pilot.press("pageup", "home", "pagedown")
        await pilot.pause()
        assert "row 24" in picture(app)
        assert len(set(made)) < 200


async def test_what_is_pasted_into_the_filter_is_shown_escaped(here: Places) -> None:
    app = Quiet(here)
    async with app.run_test(size=(120, 36)) as pilot:
        app.fill()
        await pilot.press("slash")
        app.screen.query_one(Input).value = "a\x1b]52;c;eA==\x07\u202eb"
        await pilot.pause()
        text = picture(app)
        assert "\x1b" not in text and "\u202e" not in text and "a␛]52" in text
