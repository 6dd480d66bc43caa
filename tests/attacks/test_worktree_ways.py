"""Starting in a worktree beside a session that writes there: what nd7 makes and takes away is not led elsewhere."""

from __future__ import annotations

from world import World

OUTER = """
until [[ -e sub/.git/now ]]; do sleep 0.05; done
mv sub-worktrees aside && ln -s /home/dev/victims sub-worktrees
touch sub/.git/turned
until [[ -e end ]]; do sleep 0.05; done
"""
HOOK = """#!/bin/sh
touch ${GIT_COMMON_DIR:-$(git rev-parse --git-common-dir)}/now
until [ -e $(git rev-parse --git-common-dir)/turned ]; do sleep 0.05; done
exit 1
"""


def test_a_folder_that_becomes_a_link_while_git_works_is_not_emptied(world: World) -> None:
    """A session works in the folder above the repository, so it can turn the folder of the worktrees."""
    world.write("sub/file", "one\n")
    world.write("/home/dev/victims/docs/precious", "mine\n")
    said = world.run(
        ["sh", "-c", "git init -q && git add . && git -c user.name=a -c user.email=a@b commit -qm first"], cwd="sub"
    )
    assert said.code == 0, said
    world.write("sub/.git/hooks/post-checkout", HOOK, 0o755)
    outer = world.start(["nd7", "run", "bash", "-c", OUTER])
    world.wait(lambda: world.listdir("/home/dev/.nd7/sessions"))
    done = world.run(["nd7", "run", "--worktree", "docs", "true"], cwd="sub")
    assert done.code == 126 and "Traceback" not in done.err, done
    assert world.exists("sub/.git/turned"), (done, "the link was never made")
    assert world.read("/home/dev/victims/docs/precious") == "mine\n"
    world.write("end", "")
    outer.wait(20)
