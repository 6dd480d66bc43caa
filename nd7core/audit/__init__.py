"""The audit log: frames (`frame`), writing (`log`, `recorder`), reading (`tail`), checking (`verify`)."""
