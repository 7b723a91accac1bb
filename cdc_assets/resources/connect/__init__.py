"""Kafka Connect through its REST interface: one client for every verb, states as values, secrets never as text."""

from cdc_assets.resources.connect.client import ConnectClient
from cdc_assets.resources.connect.states import ConnectorOverview, ConnectorStatus, Plugin, SourceOffset, TaskStatus

__all__ = ["ConnectClient", "ConnectorOverview", "ConnectorStatus", "Plugin", "SourceOffset", "TaskStatus"]
