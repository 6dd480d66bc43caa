"""The policy: SBPL text, the rules in it, what they decide, and what Linux makes of them."""

from nd7core.policy.evaluate import Decision, decide, decide_network
from nd7core.policy.linux import compile_linux
from nd7core.policy.model import Filter, Policy, PolicyError, Rule, Unenforceable
from nd7core.policy.profile import always_unwritable, build, credentials, hidden
from nd7core.policy.rules import LinuxRules
from nd7core.policy.sbpl import parse, render

__all__ = [
    "Decision",
    "Filter",
    "LinuxRules",
    "Policy",
    "PolicyError",
    "Rule",
    "Unenforceable",
    "always_unwritable",
    "build",
    "compile_linux",
    "credentials",
    "decide",
    "decide_network",
    "hidden",
    "parse",
    "render",
]
