"""What each agent needs to be started with: its hooks, its own sandbox off, the folders it must write.

An agent that no adapter knows runs just the same, under the floor: it is not told of the policy, its commands do not
see grants, and nothing of it is recorded.  Knowing an agent never opens more than the adapter names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Launch:
    """How a program is to be started, before and after its adapter has seen it.

    Attributes:
        program: absolute path of what is executed, as found on PATH (a symlink or a shim stays one).
        argv: with the name first, as the person typed it.
        environ: the person's own environment.
        project, home, tmp: canonical directories; the program starts in `project`.
        exit, prefix, record: the launchers: nd7-exec, the one that takes a command as its only argument, the hook.
        shell: absolute path of the shell that runs commands.
        writable: subtrees that the agent needs beside the project and tmp, canonical.
        writable_files: single files, written in place.
        protected: stay unwritable whatever is granted; those in a writable subtree exist.
        private: writable directories that the session gets empty and for itself, where it has mounts of its own.
        spare: those of `private` that the agent can do without: unwritable where there are no mounts.
        allowed_ids: the agent's session ids that the person named, whose logs this run goes on with.
        older: the agent's session ids in this project from before this run.
        choosing: the person asked the agent to go on with an older session without naming it.
        notes: what the person should know, one sentence each.
        agent_config: the agent's configuration directory, with its transcripts; None without an adapter.
        output_roots: where the outputs of its background commands lie.
        hook_command: the hook's command as the agent was given it.
    """

    program: str
    argv: tuple[str, ...]
    environ: Mapping[str, str] = field(hash=False)
    project: str
    home: str
    tmp: str
    exit: str
    record: str
    shell: str
    prefix: str = ""
    writable: tuple[str, ...] = ()
    writable_files: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    spare: tuple[str, ...] = ()
    allowed_ids: frozenset[str] = frozenset()
    older: frozenset[str] = frozenset()
    choosing: bool = False
    notes: tuple[str, ...] = ()
    agent_config: str | None = None
    output_roots: tuple[str, ...] = ()
    hook_command: str = ""


class Adapter(Protocol):
    """One agent."""

    name: str

    def knows(self, program: str, name: str) -> bool:
        """Whether `program` (absolute path), called by the person as `name`, is this agent."""
        ...

    def prepare(self, launch: Launch) -> Launch:
        """The launch with everything added.  Makes missing folders of the agent's state.

        Raises:
            Nd7Error: the agent cannot be started confined, and why.
        """
        ...


def adapter_for(program: str, name: str) -> Adapter | None:
    """The adapter of a program, or None for one that is no agent that nd7 knows."""
    from nd7exec.agents.claude import Claude

    adapters: tuple[Adapter, ...] = (Claude(),)
    return next((adapter for adapter in adapters if adapter.knows(program, name)), None)
