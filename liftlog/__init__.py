"""liftlog: a durable, replicated message log for NATS.

`docs/ARCHITECTURE.md` is the map of this package; `spec/README.md` holds the numbered rules it keeps.
"""

from liftlog.version import VERSION as __version__

__all__ = ["__version__"]
