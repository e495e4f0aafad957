"""One toolkit for tool-integrated reasoning: trajectories in, trajectories out."""

__version__ = "0.1.0"
