"""What can be said of data before anything is learned from it."""

from fnode.analysis.quality import Channel, Motion, Quality, Sampling, quality
from fnode.analysis.redundancy import Bound, bound

__all__ = ["Bound", "Channel", "Motion", "Quality", "Sampling", "bound", "quality"]
