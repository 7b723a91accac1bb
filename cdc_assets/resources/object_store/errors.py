"""What a store can refuse, by what the caller can do about it. The root, `StoreError`, is the package's."""

from __future__ import annotations

from cdc_assets.errors import StoreError


class StoreAccessError(StoreError):
    """No credentials, wrong ones, or not allowed: someone has to grant something."""


class MissingBucketError(StoreError):
    """The bucket does not exist: create it, or correct the registry."""


class MissingObjectError(StoreError):
    """There is no object under this key."""


class PreconditionError(StoreError):
    """There is an object under this key already."""
