"""Launching a run over several sites: staging, jobs, the channel to them, the journal, cleaning up."""
