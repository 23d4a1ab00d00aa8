from django.urls import path

from apps.dashboard import views

app_name = "dashboard"
urlpatterns = [
    path("", views.operate, name="operate"),
    path("figures/", views.figures, name="figures"),
    path("feed/", views.verdict_feed, name="feed"),
    path("history.json", views.history, name="history"),
]
