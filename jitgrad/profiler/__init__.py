"""Profiles of what runs: `torch.profiler`'s everyday use, with a time for each kernel inside compiled calls."""

from .annotation import record_function
from .events import Average, Averages, Event, Events
from .profile import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "Average", "Averages", "Event", "Events", "ProfilerAction", "ProfilerActivity", "profile", "record_function",
    "schedule", "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip
