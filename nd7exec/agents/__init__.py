"""What each agent needs to be started with: its hooks, its own sandbox off, the folders it must write."""
