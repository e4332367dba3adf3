"""The variants of the protocol: one module each, and one VARIANTS dict."""

from __future__ import annotations

from ..rules import Rules
from .asynchronous import Asynchronous
from .follower_reads import FollowerReads
from .high_watermark import HighWatermark
from .kip_98 import Kip98
from .kip_101 import Kip101
from .kip_279 import Kip279
from .kip_966 import Kip966
from .kraft import Kraft
from .lag_max_messages import LagMaxMessages
from .last_known_leader import LastKnownLeader
from .majority_quorum import MajorityQuorum
from .no_commit_fencing import NoCommitFencing
from .no_controller_epoch import NoControllerEpoch

_ALL: tuple[type[Rules], ...] = (
    HighWatermark,
    Kip101,
    Kip279,
    Kip98,
    Rules,
    Kraft,
    Kip966,
    LastKnownLeader,
    LagMaxMessages,
    MajorityQuorum,
    Asynchronous,
    FollowerReads,
    NoControllerEpoch,
    NoCommitFencing,
)
VARIANTS: dict[str, type[Rules]] = {variant.name: variant for variant in _ALL}
