from django.urls import path

from apps.console.views import access, erasures

app_name = "console"
urlpatterns = [
    path("keys/", access.keys, name="keys"),
    path("keys/<int:key_id>/revoke/", access.revoke, name="revoke"),
    path("audit/", access.audit, name="audit"),
    path("erasures/", erasures.show, name="erasures"),
    path("erasures/find/", erasures.find, name="find-sender"),
    path("erasures/people/", erasures.person, name="erase-person"),
    path("erasures/senders/<int:sender_id>/", erasures.sender, name="erase-sender"),
    path("erasures/<int:erasure_id>/", erasures.erasure, name="erasure"),
]
