"""API keys: found by digest, remembered for two seconds, their use written once a minute."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts.keys import KeyCache, find_key, write_use
from apps.accounts.models import ApiKey
from apps.accounts.services import create_api_key

pytestmark = pytest.mark.django_db


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class TestFindKey:
    def test_finds_a_key_by_its_secret(self) -> None:
        key, secret = create_api_key(name="backend")
        assert find_key(secret) == key

    def test_keeps_no_secret(self) -> None:
        key, secret = create_api_key(name="backend")
        stored = ApiKey.objects.filter(pk=key.pk).values_list()[0]
        assert secret.split("_")[2] not in str(stored)

    @pytest.mark.parametrize("spoil", [str.upper, lambda s: s[:-1], lambda s: s + "x", str.title])
    def test_another_secret_with_the_same_prefix_is_none(self, spoil: Any) -> None:
        _, secret = create_api_key(name="backend")
        assert find_key(spoil(secret)) is None

    @pytest.mark.parametrize("secret", ["", "cw", "cw__", "cw_a_b_c", "xx_a_b", "cw_\x00_b"])
    def test_what_is_no_key_is_none(self, secret: str) -> None:
        assert find_key(secret) is None


class TestKeyCache:
    def test_answers_from_memory_for_two_seconds(self, django_assert_num_queries: Any) -> None:
        clock = Clock()
        cache = KeyCache(clock=clock)
        key, secret = create_api_key(name="backend")
        assert not cache.remembers(secret)
        with django_assert_num_queries(1):
            assert cache.find(secret) == key
            clock.now_s += 1.9
            assert cache.remembers(secret)
            assert cache.find(secret) == key
        clock.now_s += 0.1
        assert not cache.remembers(secret)
        with django_assert_num_queries(1):
            assert cache.find(secret) == key

    def test_a_revoked_key_ends_within_two_seconds(self) -> None:
        clock = Clock()
        cache = KeyCache(clock=clock)
        key, secret = create_api_key(name="backend")
        cache.find(secret)
        ApiKey.objects.filter(pk=key.pk).update(revoked_at=timezone.now())
        clock.now_s += 2.0
        assert cache.find(secret) is None

    def test_an_expired_key_ends_at_once(self) -> None:
        cache = KeyCache(clock=Clock())
        key, secret = create_api_key(name="backend", expires_at=timezone.now() + timedelta(hours=1))
        found = cache.find(secret)
        assert found == key
        found.expires_at = timezone.now()
        assert cache.find(secret) is None

    def test_remembers_that_a_key_is_wrong(self, django_assert_num_queries: Any) -> None:
        cache = KeyCache(clock=Clock())
        with django_assert_num_queries(1):
            assert cache.find("cw_00000000_x") is None
            assert cache.find("cw_00000000_x") is None

    def test_holds_no_more_than_its_capacity(self) -> None:
        cache = KeyCache(capacity=3, clock=Clock())
        for number in range(20):
            cache.find(f"cw_0000000{number}_x")
        assert sum(cache.remembers(f"cw_0000000{number}_x") for number in range(20)) <= 3

    def test_use_is_due_once_a_minute(self) -> None:
        clock = Clock()
        cache = KeyCache(clock=clock)
        key, _ = create_api_key(name="backend")
        due = []
        for _ in range(7):
            due.append(cache.use_is_due(key))
            clock.now_s += 20
        assert due == [True, False, False, True, False, False, True]


class TestWriteUse:
    def test_notes_the_use_unless_it_was_just_noted(self) -> None:
        key, _ = create_api_key(name="backend")
        write_use(key.pk)
        first = ApiKey.objects.get(pk=key.pk).last_used_at
        assert first is not None

        write_use(key.pk)
        assert ApiKey.objects.get(pk=key.pk).last_used_at == first

        long_ago = timezone.now() - timedelta(minutes=2)
        ApiKey.objects.filter(pk=key.pk).update(last_used_at=long_ago)
        write_use(key.pk)
        assert ApiKey.objects.get(pk=key.pk).last_used_at > first
