"""Signing in and out, and how a person likes to see the console."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth import views as auth_views
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, resolve_url
from django.urls import NoReverseMatch, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import check_for_language
from django.views.decorators.http import require_POST

from apps.accounts.access import SignedInRequest, requires
from apps.accounts.forms import SignInForm
from apps.accounts.models import User
from apps.accounts.permissions import Permission, may
from apps.core import theme as themes

ONE_YEAR_S = 31_536_000


class SignIn(auth_views.LoginView):
    form_class = SignInForm
    template_name = "accounts/sign_in.html"
    redirect_authenticated_user = True

    def form_valid(self, form: SignInForm) -> HttpResponse:  # type: ignore[override]
        response = super().form_valid(form)
        language = form.get_user().language
        if language:
            _remember_language(response, language)
        return response


sign_in = SignIn.as_view()
sign_out = auth_views.LogoutView.as_view(next_page="accounts:sign-in")


@requires()
def home(request: SignedInRequest) -> HttpResponse:
    """To the page that the person's work is on."""
    return redirect(_home_of(request.user))


def _home_of(user: User) -> str:
    pages = ["dashboard:operate", "review:queue"]
    # Operators may not decide; admins may, but the machine is their first concern.
    if may(user, Permission.REVIEW) and not may(user, Permission.OPERATE_ACT):
        pages.reverse()
    for page in pages:
        try:
            return reverse(page)
        except NoReverseMatch:
            continue
    raise NoReverseMatch(f"none of {pages} is mounted")


@require_POST
def choose_theme(request: HttpRequest) -> HttpResponse:
    """Without JavaScript; with it the same cookie is written by theme-switch.js."""
    response = _back(request)
    chosen = request.POST.get("theme", "")
    if chosen in themes.THEMES:
        _remember(response, themes.COOKIE, chosen)
    return response


@require_POST
def choose_language(request: HttpRequest) -> HttpResponse:
    """Kept with the person, so that it follows them to another browser."""
    response = _back(request)
    chosen = request.POST.get("language", "")
    if chosen in dict(settings.LANGUAGES) and check_for_language(chosen):
        _remember_language(response, chosen)
        if request.user.is_authenticated:
            User.objects.filter(pk=request.user.pk).update(language=chosen)
    return response


def _back(request: HttpRequest) -> HttpResponseRedirect:
    url = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(
        url, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    ):
        url = resolve_url("home")
    return HttpResponseRedirect(url)


def _remember_language(response: HttpResponse, language: str) -> None:
    _remember(response, settings.LANGUAGE_COOKIE_NAME, language)


def _remember(response: HttpResponse, name: str, value: str) -> None:
    response.set_cookie(
        name, value, max_age=ONE_YEAR_S, samesite="Lax", secure=settings.SESSION_COOKIE_SECURE
    )
