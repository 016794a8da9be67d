"""PJRT's C API over xloom's PJRT objects: what frameworks load as a plugin."""

from xloom.pjrt.capi.api import api_address, resume

__all__ = ["api_address", "resume"]
