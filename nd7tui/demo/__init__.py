"""`nd7 demo`: a small agent of nd7's own plays a session through the real supervisor, in a throw-away home."""
