"""The audit log: frames in a hash chain, appended under a lock, verified, followed."""
