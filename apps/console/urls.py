from django.urls import path

from apps.console.views import access

app_name = "console"
urlpatterns = [
    path("keys/", access.keys, name="keys"),
    path("keys/<int:key_id>/revoke/", access.revoke, name="revoke"),
    path("audit/", access.audit, name="audit"),
]
