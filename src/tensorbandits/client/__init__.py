"""The client of the decision service: :class:`tensorbandits.Client`, and its awaited twin.

Every operation is written once, as a coroutine; what sends and sleeps is apart (:mod:`tensorbandits.client.messages`).
"""

from tensorbandits.bandit.decision import Advice
from tensorbandits.client.awaiting import AsyncClient
from tensorbandits.client.blocking import Client, RemoteBandit
from tensorbandits.client.errors import (
    KeyReusedError,
    NameTakenError,
    ServerAwayError,
    ServerError,
    UnknownBanditError,
)
from tensorbandits.client.outbox import Flushed
from tensorbandits.client.remote_bandit import AsyncRemoteBandit, Believed, Examined

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
