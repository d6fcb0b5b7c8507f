"""What every test relies on."""

import signal

# Started in the background by a shell, we would hand an ignored SIGINT on to every program: Ctrl-C could not be tested.
signal.signal(signal.SIGINT, signal.default_int_handler)
