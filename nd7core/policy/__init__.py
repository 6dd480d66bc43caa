"""The policy: SBPL text, the rules in it, what they decide, and what Linux makes of them."""
