"""Where a refusal came from: attribution that people can bet on."""

from nd7core.attribution.engine import explain
from nd7core.attribution.failure import Failure, platform_named
from nd7core.attribution.look import FileLook, Look, NotedLinks, Seen
from nd7core.attribution.rules import Rules, of_context, of_policy, of_record
from nd7core.attribution.verdict import Verdict
from nd7core.attribution.words import explain_words

__all__ = [
    "Failure",
    "FileLook",
    "Look",
    "NotedLinks",
    "Rules",
    "Seen",
    "Verdict",
    "explain",
    "explain_words",
    "of_context",
    "of_policy",
    "of_record",
    "platform_named",
]
