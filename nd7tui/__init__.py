"""What a person touches: the nd7 command line and the dashboard."""
