"""The types of numpy arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Int32s = NDArray[np.int32]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
