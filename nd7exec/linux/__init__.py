"""Confinement on Linux: Landlock, seccomp, namespaces, and the notifier that decides what they cannot."""
