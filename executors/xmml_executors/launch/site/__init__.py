"""One site of a run: the login to it, its folder, what is staged there, and the session with its agents."""
