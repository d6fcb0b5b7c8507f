"""Relays: on this machine, on login nodes, and how processes at sites reach the coordinator through them."""
