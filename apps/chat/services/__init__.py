"""What changes groups, senders and messages."""

from apps.chat.services.deletion import Deleted, delete_message
from apps.chat.services.ingest import Ingested, NewMessage, Outcome, ingest_messages

__all__ = ["Deleted", "Ingested", "NewMessage", "Outcome", "delete_message", "ingest_messages"]
