"""The documentation page: a page of the site, so Django serves it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.api.app import operations
from apps.api.openapi import openapi_document
from apps.api.problems import ALL_KINDS
from apps.api.reference import operation_entries


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """For anybody: it tells what the API can do, and nothing that is in it."""
    base_url = request.build_absolute_uri("/").rstrip("/")
    entries = operation_entries(operations(), _document(), base_url)
    return render(
        request,
        "api/docs.html",
        {"operations": entries, "problems": ALL_KINDS, "base_url": base_url},
    )


@lru_cache(maxsize=1)
def _document() -> dict[str, Any]:
    return openapi_document(operations())
