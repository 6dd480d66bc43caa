"""What nd7 knows, with no screen and no kernel in it.

The policy and its SBPL, session directories, the audit log, the pairing of calls with results,
denials and where they came from, grants, the history index.  Imports nothing of nd7exec or nd7tui.
"""

__version__ = "0.1.0"
