"""The client of the decision service: :class:`tensorbandits.Client`, and its awaited twin.

Every operation is written once, as steps (:mod:`tensorbandits.client.steps`); what sends them is apart.
"""

from tensorbandits.client.awaiting import AsyncClient, AsyncRemoteBandit
from tensorbandits.client.blocking import Client, RemoteBandit
from tensorbandits.client.errors import (
    KeyReusedError,
    NameTakenError,
    ServerAwayError,
    ServerError,
    UnknownBanditError,
)
from tensorbandits.client.outbox import Flushed
from tensorbandits.client.upkeep import Believed, Examined
from tensorbandits.client.wire import Advice

__all__ = [
    "Advice",
    "AsyncClient",
    "AsyncRemoteBandit",
    "Believed",
    "Client",
    "Examined",
    "Flushed",
    "KeyReusedError",
    "NameTakenError",
    "RemoteBandit",
    "ServerAwayError",
    "ServerError",
    "UnknownBanditError",
]
