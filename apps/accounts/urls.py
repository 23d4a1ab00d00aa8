from django.urls import path

from apps.accounts import views

app_name = "accounts"
urlpatterns = [
    path("sign-in/", views.sign_in, name="sign-in"),
    path("sign-out/", views.sign_out, name="sign-out"),
    path("theme/", views.choose_theme, name="theme"),
    path("language/", views.choose_language, name="language"),
]
