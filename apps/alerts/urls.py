from django.urls import path

from apps.alerts import views

app_name = "alerts"
urlpatterns = [
    path("", views.alerts, name="alerts"),
    path("<slug:figure>/", views.change, name="change"),
    path("<slug:figure>/silence/", views.be_silent, name="silence"),
]
