"""People get in with the right password only, whatever they type, and are slowed down guessing."""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts import throttle
from apps.accounts.models import Role, SignInFailure, User
from apps.accounts.services import ensure_user

pytestmark = pytest.mark.django_db

NAME, PASSWORD = "mira", "correct horse battery"


@pytest.fixture
def mira() -> User:
    return ensure_user(username=NAME, role=Role.MODERATOR, password=PASSWORD)


def sign_in(client: Client, name: str = NAME, password: str = PASSWORD, **extra: str) -> int:
    data = {"username": name, "password": password, **extra}
    return client.post(reverse("accounts:sign-in"), data).status_code


def is_signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def test_right_password_signs_in(client: Client, mira: User) -> None:
    assert sign_in(client) == 302
    assert is_signed_in(client)


@pytest.mark.parametrize(
    ("name", "password"),
    [
        (NAME, "wrong"),
        ("nobody", PASSWORD),
        ("", ""),
        ("a\0b", PASSWORD),
        (NAME, "a\0b"),
        ("\u202emira", PASSWORD),
        ("m" * 100_000, PASSWORD),
        (NAME, "p" * 100_000),
        ("\ud83d", "\ud83d"),
        ("' OR 1=1 --", "' OR 1=1 --"),
    ],
)
def test_anything_else_is_a_form_error(
    client: Client, mira: User, name: str, password: str
) -> None:
    body = urlencode({"username": name, "password": password}, errors="surrogatepass")
    response = client.post(
        reverse("accounts:sign-in"), body, content_type="application/x-www-form-urlencoded"
    )
    assert response.status_code == 200
    assert 'class="field-error"' in response.content.decode()
    assert not is_signed_in(client)


def test_inactive_person_is_told_what_a_stranger_is_told(client: Client, mira: User) -> None:
    url, data = reverse("accounts:sign-in"), {"username": NAME, "password": PASSWORD}
    User.objects.filter(pk=mira.pk).update(is_active=False)
    told = client.post(url, data).context["form"].non_field_errors()
    stranger = client.post(url, {**data, "username": "nobody"}).context["form"].non_field_errors()
    assert told == stranger


def test_sixth_try_is_refused_even_with_the_right_password(client: Client, mira: User) -> None:
    for _ in range(throttle.MOST_BY_NAME_AND_ADDRESS):
        sign_in(client, password="wrong")
    response = client.post(reverse("accounts:sign-in"), {"username": NAME, "password": PASSWORD})
    assert "Too many failed tries" in response.content.decode()
    assert not is_signed_in(client)


class SlowBackend:
    """Takes its time over a password, as real hashing does: until `looked` is set."""

    looking: list[str]
    looked: threading.Event

    def authenticate(self, request: object, username: str, password: str) -> None:
        self.looking.append(password)
        assert self.looked.wait(60)


@pytest.mark.django_db(transaction=True)
def test_guesses_at_once_are_no_more_than_one_after_the_other(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.AUTHENTICATION_BACKENDS = [f"{__name__}.SlowBackend"]
    monkeypatch.setattr(SlowBackend, "looking", [], raising=False)
    monkeypatch.setattr(SlowBackend, "looked", threading.Event(), raising=False)
    guesses = 3 * throttle.MOST_BY_NAME_AND_ADDRESS

    def guess(number: int) -> None:
        try:
            sign_in(Client(), password=f"guess {number}")
        finally:
            connection.close()

    with ThreadPoolExecutor(guesses) as pool:
        left = {pool.submit(guess, number) for number in range(guesses)}
        # The refused return, all others are being looked at.
        while len(left) > len(SlowBackend.looking):
            done, left = wait(left, timeout=0.05, return_when=FIRST_COMPLETED)
            for one in done:
                one.result()
        SlowBackend.looked.set()
    assert 0 < len(SlowBackend.looking) <= throttle.MOST_BY_NAME_AND_ADDRESS


def test_others_at_the_same_address_may_still_sign_in(client: Client, mira: User) -> None:
    for _ in range(throttle.MOST_BY_NAME_AND_ADDRESS):
        sign_in(client, name="somebody else", password="wrong")
    assert sign_in(client) == 302


def test_the_same_name_from_elsewhere_may_still_sign_in(mira: User) -> None:
    guesser, owner = Client(REMOTE_ADDR="192.0.2.1"), Client(REMOTE_ADDR="192.0.2.2")
    for _ in range(throttle.MOST_BY_NAME_AND_ADDRESS):
        sign_in(guesser, password="wrong")
    assert sign_in(owner) == 302


def test_an_address_that_tries_many_names_is_refused(client: Client, mira: User) -> None:
    SignInFailure.objects.bulk_create(
        SignInFailure(name_digest=bytes([number]), address="127.0.0.1")
        for number in range(throttle.MOST_BY_ADDRESS)
    )
    assert sign_in(client) == 200


def test_refusal_ends_with_its_window(client: Client, mira: User) -> None:
    for _ in range(throttle.MOST_BY_NAME_AND_ADDRESS):
        sign_in(client, password="wrong")
    long_ago = timezone.now() - throttle.WINDOW - timedelta(seconds=1)
    SignInFailure.objects.update(at=long_ago)
    assert sign_in(client) == 302


def test_failures_keep_no_name(client: Client, mira: User) -> None:
    sign_in(client, name="my password, typed in the wrong field", password="x")
    assert len(SignInFailure.objects.get().name_digest) == 32


def test_success_forgets_the_failures_before_it(client: Client, mira: User) -> None:
    sign_in(client, password="wrong")
    sign_in(client)
    assert not SignInFailure.objects.exists()


@pytest.mark.parametrize(
    "target",
    ["https://evil.example/", "//evil.example/", "javascript:alert(1)", "/\\evil", "\0//evil"],
)
def test_sign_in_leads_to_no_foreign_page(client: Client, mira: User, target: str) -> None:
    data = {"username": NAME, "password": PASSWORD, "next": target}
    response = client.post(reverse("accounts:sign-in"), data)
    assert response["Location"] == reverse("home")


def test_sign_in_leads_back_to_the_page_asked_for(client: Client, mira: User) -> None:
    asked = client.get(reverse("home"))
    assert asked["Location"] == f"{reverse('accounts:sign-in')}?next=/"
    data = {"username": NAME, "password": PASSWORD, "next": "/some/page/?q=1"}
    assert client.post(asked["Location"], data)["Location"] == "/some/page/?q=1"


def test_fragment_sends_the_whole_page_to_sign_in(client: Client) -> None:
    response = client.get(reverse("home"), headers={"HX-Request": "true"})
    assert response["HX-Redirect"] == reverse("accounts:sign-in")


def test_sign_out_needs_a_post(client: Client, mira: User) -> None:
    client.force_login(mira)
    assert client.get(reverse("accounts:sign-out")).status_code == 405
    client.post(reverse("accounts:sign-out"))
    assert not is_signed_in(client)


def test_sign_in_without_the_forms_token_is_refused_with_a_page(mira: User) -> None:
    client = Client(enforce_csrf_checks=True)
    response = client.post(reverse("accounts:sign-in"), {"username": NAME, "password": PASSWORD})
    assert response.status_code == 403
    assert "This form is too old" in response.content.decode()
