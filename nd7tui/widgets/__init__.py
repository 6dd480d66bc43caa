"""Widgets that draw lines.  Each asks the store, none touches a file, and none makes text of its own (see line.py)."""
