"""The demo's session: the real supervisor on a stage, in a process of its own.

    python -I -m nd7tui.demo.session DIRECTORY [keep]

Standard input and output become the agent's, which `drive` reads and answers.  However it ends, the stage goes (but
with `keep`): this process outlives a dashboard that was killed, because its input ends then and the agent with it.
"""

from __future__ import annotations

import os
import shlex
import sys

from nd7core.errors import Nd7Error
from nd7tui.cli import fail
from nd7tui.demo.stage import Stage


def say(line: str) -> None:
    """One line of nd7's own, among those of the agent."""
    try:
        os.write(1, f"nd7: {line}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        return  # nobody reads it any more


def main(directory: str, *, keep: bool = False) -> int:
    """Run the session to its end; returns the agent's exit status."""
    from nd7exec import lifecycle
    from nd7exec.supervisor import Supervisor

    stage, ourselves = Stage(directory), os.getpid()
    launchers = os.path.join(stage.places.state, "bin")
    words = (
        stage.program,
        "--driven",
        "--exec",
        os.path.join(launchers, "nd7-exec"),
        "--hook",
        shlex.quote(os.path.join(launchers, "nd7-record")),
    )
    try:
        os.chdir(stage.project)
        environ = stage.environ(os.environ)
        session = lifecycle.prepare(lifecycle.Wish(words, stage.project, "demo"), stage.places, environ)
        return Supervisor(session, stage.places, frozenset(), say).run()
    except Nd7Error as error:
        return fail(error)
    finally:
        if os.getpid() == ourselves and not keep:
            stage.remove()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], keep=sys.argv[2:] == ["keep"]))
