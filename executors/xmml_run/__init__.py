"""The commands `xmml-run` and `xmml`: options, progress, reports; no logic of their own."""
