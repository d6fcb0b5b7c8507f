"""Runs over several sites, each with an sshd of its own on this machine."""

from several_sites import sites as sites
