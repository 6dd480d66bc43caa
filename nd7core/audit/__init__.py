"""The audit log: frames (`frame`), writing (`log`, `recorder`, `by_hand`), reading (`tail`), checking (`verify`).

Frames that are nd7's own, beside those of the hooks:

    kind         source            body
    gap          nd7:recorder,     something is missing: `text` (a sentence), `reason`, and what is known of it:
                 nd7:transcript,   `tool_use_id`, `tool_name`, `hook_event_name`, `agent_session`, `size`, `blake3`
                 nd7:hooks
    tool_result  nd7:transcript    what no hook told, from the agent's transcript: the keys of a hook's, and
                                   `outcome` (succeeded, failed, rejected, interrupted, background, typed),
                                   `exit_code`, `task_id`, `text`
    words        nd7:transcript    `text`, one block of what the agent said, unless a hook told it too, and `agent_id`;
                                   `ts` is when it was said, so it may stand behind later frames
    session      nd7:recorder      the first of a session's own log, `nd7-<pid>-<time>`: `name`, `project`, `program`,
                                   `agent`
    conversation nd7:recorder      here goes on the older one that the agent was asked to choose, `agent_session`; one
                                   that nobody asked for is a gap of `reason` conversation
    links        nd7:recorder      `links`: where paths of the failed call `tool_use_id` led, whose result comes next
    canary       nd7:canary        a probe ran inside and met the policy, or not
    grant        nd7:grants        `action`, `path`, `scope`, `origin`, `revision`
    attempt      effect:nd7-broker what the broker refused by itself
    denial       effect:landlock-audit, effect:seccomp-audit
                                   what the kernel recorded as refused: an access, or a system call by its name
    untied       effect:seccomp-audit
                                   `count` refused calls of processes that ended before it was seen whose they were

Behind each body of a supervised session stand `nd7_session`, the pid of `nd7 run`, and `policy_revision`; in the
session's own log, where a frame is of an older conversation, `agent_session` before them.
`nd7_more` holds what a payload has beyond the format's keys, `nd7_note` what had to be changed to write it.
"""
