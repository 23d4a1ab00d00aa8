from django.urls import path

from apps.dashboard import control_views, fallback_views, views

app_name = "dashboard"
urlpatterns = [
    path("", views.operate, name="operate"),
    path("figures/", views.figures, name="figures"),
    path("feed/", views.verdict_feed, name="feed"),
    path("events.json", views.events, name="events"),
    path("moment/", views.moment, name="moment"),
    path("history.json", views.history, name="history"),
    path("fallback/", fallback_views.fallback, name="fallback"),
    path("fallback.json", fallback_views.fallback_json, name="fallback-json"),
    path("controls/", control_views.controls, name="controls"),
    path("controls/progress/", control_views.progress, name="progress"),
    path("controls/replica/", control_views.act_on_replica, name="act-on-replica"),
    path("controls/breaker/", control_views.act_on_breaker, name="act-on-breaker"),
    path("controls/claiming/", control_views.act_on_claiming, name="act-on-claiming"),
    path("controls/judging/", control_views.act_on_judging, name="act-on-judging"),
    path("controls/model/", control_views.act_on_model, name="act-on-model"),
    path("controls/limits/", control_views.change_limits, name="change-limits"),
]
