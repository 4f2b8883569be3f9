"""What can be said of data before anything is learned from it."""

from fnode.analysis.quality import Channel, Motion, Quality, Sampling, quality

__all__ = ["Channel", "Motion", "Quality", "Sampling", "quality"]
