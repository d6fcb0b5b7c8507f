"""How long programs of ours go on at a site without a sign of life."""

from __future__ import annotations

#: What runs at a site stops by itself when it receives nothing from the launcher for so long (XMML_SITE_LEASE_S) [s].
LEASE_S = 90.0
