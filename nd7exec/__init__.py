"""What nd7 does to processes: the supervisor and its broker, confinement per system, the pty, the agents.

Imports nd7core, never nd7tui.  Nothing here may be imported on the path of a command or of a hook
unless that path needs it: see tests/test_layers.py.
"""
