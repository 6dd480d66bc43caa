"""One module a command; `nd7tui.cli.COMMANDS` is their table."""
