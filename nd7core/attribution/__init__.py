"""From a failed tool result to where the refusal came from and what mends it."""
