"""What changes groups, senders and messages."""

from apps.chat.services.deletion import Deleted, delete_message
from apps.chat.services.ingest import Ingested, NewMessage, Outcome, ingest_messages
from apps.chat.services.retention import Forgotten, forget_deletions, forget_senders

__all__ = [
    "Deleted",
    "Forgotten",
    "Ingested",
    "NewMessage",
    "Outcome",
    "delete_message",
    "forget_deletions",
    "forget_senders",
    "ingest_messages",
]
