from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

from apps.accounts.views import home

urlpatterns: list[URLPattern | URLResolver] = [
    path("", home, name="home"),
    path("", include("apps.accounts.urls")),
    path("operate/alerts/", include("apps.alerts.urls")),
    path("operate/", include("apps.dashboard.urls")),
    path("policies/", include("apps.console.policy_urls")),
    path("admin/", include("apps.console.urls")),
    path("review/", include("apps.review.urls")),
    path("api/v1/", include("apps.api.urls")),
]

handler400 = "apps.core.errors.bad_request"
handler403 = "apps.core.errors.permission_denied"
handler404 = "apps.core.errors.page_not_found"
handler500 = "apps.core.errors.server_error"
