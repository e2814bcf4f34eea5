"""What an address looks like: `host:port`; an IPv6 host stands in brackets."""

from __future__ import annotations

import re


def is_address(text: str) -> bool:
    """Whether it names a host, and a port from 1 to 65535."""
    return re.fullmatch(r".+:\d{1,5}", text) is not None and 0 < int(text.rpartition(":")[2]) < 65536
