"""One small module a variant of the protocol, and one VARIANTS dict."""

from __future__ import annotations

from ..protocol import Protocol
from .asynchronous import Asynchronous
from .follower_reads import FollowerReads
from .high_watermark import HighWatermark
from .kip_101 import Kip101
from .kip_279 import Kip279
from .kip_966 import Kip966
from .kraft import Kraft
from .lag_max_messages import LagMaxMessages
from .last_known_leader import LastKnownLeader
from .majority_quorum import MajorityQuorum
from .no_controller_epoch import NoControllerEpoch

_ALL: tuple[type[Protocol], ...] = (
    HighWatermark,
    Kip101,
    Kip279,
    Protocol,
    Kraft,
    Kip966,
    LastKnownLeader,
    LagMaxMessages,
    MajorityQuorum,
    Asynchronous,
    FollowerReads,
    NoControllerEpoch,
)
VARIANTS: dict[str, type[Protocol]] = {variant.name: variant for variant in _ALL}
