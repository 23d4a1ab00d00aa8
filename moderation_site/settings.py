"""The one settings file: everything comes from the environment (see `env.py`)."""

from __future__ import annotations

import tomllib
from pathlib import Path

from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _

from moderation_site import env

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(env.read("DATA_DIR", str(BASE_DIR / ".local")))

# What runs, for the time line: an image's tag or a commit. Set it at each deployment.
_PROJECT = tomllib.loads((BASE_DIR / "pyproject.toml").read_text(encoding="utf-8"))["project"]
APP_VERSION = env.read("APP_VERSION", _PROJECT["version"])

DEBUG = env.boolean("DEBUG", default=False)
SECRET_KEY = env.read("SECRET_KEY", "insecure-for-debugging-only" if DEBUG else None)
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]")
CSRF_TRUSTED_ORIGINS = env.words("CSRF_TRUSTED_ORIGINS")

INSTALLED_APPS = [
    "apps.core",
    "apps.accounts",
    "apps.audit",
    "apps.policies",
    "apps.chat",
    "apps.releases",
    "apps.scoring",
    "apps.webhooks",
    "apps.review",
    "apps.dashboard",
    "apps.console",
    "apps.alerts",
    "apps.api",
    "channels",
    "django_htmx",
    "csp",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "moderation_site.urls"
ASGI_APPLICATION = "moderation_site.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": False,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "django.template.context_processors.i18n",
            ],
            "loaders": [
                (
                    "django.template.loaders.cached.Loader",
                    ["django.template.loaders.filesystem.Loader"],
                )
            ]
            if not DEBUG
            else ["django.template.loaders.filesystem.Loader"],
        },
    }
]

# ---------- stores ----------
DATABASES = {"default": env.database("DATABASE_URL")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
# A pool rather than persistent connections: under ASGI those leak (Django ticket 33497).
DATABASES["default"]["CONN_MAX_AGE"] = 0
DATABASES["default"]["OPTIONS"]["pool"] = {  # type: ignore[index]
    "min_size": 1,
    "max_size": env.integer("DATABASE_POOL_SIZE", 8, least=1),
    # How long a call waits for a connection while PostgreSQL is away, before it says so.
    "timeout": 5,
    # The pool waits twice as long after each failed attempt: begin anew, so that it is back within
    # some seconds of PostgreSQL's return, however long that took.
    "reconnect_timeout": 5,
}
REDIS_URL = env.read("REDIS_URL", "redis://127.0.0.1:6379/0")
# Keeps several stacks (or test workers) apart on one Redis.
REDIS_PREFIX = env.read("REDIS_PREFIX", "chatwarden")
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": REDIS_PREFIX,
    }
}
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL], "prefix": f"{REDIS_PREFIX}:channels"},
    }
}

# ---------- Celery: hints only, the truth is in PostgreSQL ----------
CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://", 1)
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "global_keyprefix": f"{REDIS_PREFIX}:celery:",
    "visibility_timeout": 60,
    "socket_keepalive": True,
    "health_check_interval": 10,
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 5
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_TASK_ROUTES = {"apps.scoring.tasks.drain_pending": {"queue": "scoring"}}
CELERY_TIMEZONE = "UTC"
# Threads, not processes: the work is waiting for Triton and PostgreSQL, and gRPC does not outlive
# a fork. One pipeline a process; the other threads are for the small periodic tasks.
CELERY_WORKER_POOL = "threads"
CELERY_WORKER_CONCURRENCY = 4
CELERY_BEAT_SCHEDULE = {
    "model-orders": {"task": "apps.scoring.tasks.carry_out_model_orders", "schedule": 1.0},
    "look-at-figures": {"task": "apps.alerts.tasks.look_at_figures", "schedule": 3.0},
    "tell-alerts": {"task": "apps.alerts.tasks.tell_alerts", "schedule": 3.0},
    "forget-old-alerts": {"task": "apps.alerts.tasks.forget_old_alerts", "schedule": 86400.0},
    "hint-if-due": {"task": "apps.scoring.tasks.hint_if_due", "schedule": 1.0},
    "sample-inflow": {"task": "apps.dashboard.tasks.sample_inflow", "schedule": 1.0},
    "release-outbox": {"task": "apps.webhooks.tasks.release_outbox", "schedule": 1.0},
    "drop-old-events": {"task": "apps.webhooks.tasks.drop_old_events", "schedule": 3600.0},
    "fold-totals": {"task": "apps.dashboard.tasks.fold_metric_totals", "schedule": 10.0},
    "roll-up": {"task": "apps.dashboard.tasks.roll_up_history", "schedule": 10.0},
    "record-events": {"task": "apps.dashboard.tasks.record_operational_events", "schedule": 1.0},
    "erase-senders": {"task": "apps.review.tasks.erase_senders", "schedule": 5.0},
    "expire-messages": {"task": "apps.review.tasks.expire_messages", "schedule": 30.0},
    "forget-absent": {"task": "apps.review.tasks.forget_absent", "schedule": 21600.0},
    "settle-tally": {"task": "apps.review.tasks.settle_tally", "schedule": 10.0},
    "sample-queue": {"task": "apps.review.tasks.sample_queue", "schedule": 20.0},
    "forget-exposures": {"task": "apps.review.tasks.forget_old_exposures", "schedule": 21600.0},
    "forget-waves": {"task": "apps.review.tasks.forget_old_waves", "schedule": 600.0},
}

# ---------- Triton ----------
# Comma-separated `name=host:grpc[:http[:metrics]]`; the name may be left out.
TRITON_REPLICAS = env.words("TRITON_REPLICAS", "triton-1=127.0.0.1:8001:8000:8002")

# ---------- scoring ----------
# A claim whose worker died is taken again after so long.
SCORING_LEASE_S = env.integer("SCORING_LEASE_S", 15, least=3)
# Messages in one ensemble call: the model's max_batch_size or less.
SCORING_CALL_SIZE = env.integer("SCORING_CALL_SIZE", 256, least=1)

# ---------- alerts: who is told outside the console ----------
ALERT_WEBHOOK_URL = env.read("ALERT_WEBHOOK_URL", "")
if ALERT_WEBHOOK_URL and not ALERT_WEBHOOK_URL.startswith(("https://", "http://")):
    raise ImproperlyConfigured("ALERT_WEBHOOK_URL must be an https:// or http:// address.")
ALERT_WEBHOOK_SECRET = env.read("ALERT_WEBHOOK_SECRET", "")
ALERT_EMAIL_TO = env.words("ALERT_EMAIL_TO")
EMAIL_HOST = env.read("EMAIL_HOST", "localhost")
EMAIL_PORT = env.integer("EMAIL_PORT", 25, least=1)
EMAIL_HOST_USER = env.read("EMAIL_HOST_USER", "")
EMAIL_HOST_PASSWORD = env.read("EMAIL_HOST_PASSWORD", "")
EMAIL_USE_TLS = env.boolean("EMAIL_USE_TLS", default=False)
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env.read("EMAIL_FROM", "chatwarden@localhost")

# ---------- people ----------
AUTH_USER_MODEL = "accounts.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "accounts:sign-in"
LOGIN_REDIRECT_URL = "home"
SESSION_ENGINE = "django.contrib.sessions.backends.db"
SESSION_COOKIE_AGE = 60 * 60 * 12

# ---------- review ----------
# How long an opened item is one person's, and how long a decision can be taken back.
REVIEW_LEASE_S = env.integer("REVIEW_LEASE_S", 120, least=10)
REVIEW_UNDO_S = env.integer("REVIEW_UNDO_S", 10)
# No message shall wait longer than this; the queue and the figures show how it stands.
REVIEW_TARGET_S = env.integer("REVIEW_TARGET_S", 300, least=1)
# How long near-duplicates that arrive after their wave was decided are decided like it.
REVIEW_WAVE_JOIN_S = env.integer("REVIEW_WAVE_JOIN_S", 1800, least=0)
# How long a strike counts against its sender.
STRIKE_DAYS = env.integer("STRIKE_DAYS", 90, least=1)
# How many messages of a range of scores are read and decided in one go.
REVIEW_RANGE_MOST = env.integer("REVIEW_RANGE_MOST", 200, least=1)

# ---------- retention ----------
# Messages are removed this many days after they came, with everything about them; 0 keeps them.
RETENTION_DAYS = env.integer("RETENTION_DAYS", 0)

# ---------- /metrics ----------
# The bearer token that Prometheus sends. Without one only callers on this machine are answered.
METRICS_TOKEN = env.read("METRICS_TOKEN", "")

# ---------- language and time ----------
LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("zh-hans", _("Simplified Chinese"))]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

# ---------- files ----------
STATIC_URL = "/static/"
STATIC_ROOT = Path(env.read("STATIC_ROOT", str(DATA_DIR / "static")))
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG
        else "servestatic.storage.CompressedManifestStaticFilesStorage"
    },
}
SERVESTATIC_USE_FINDERS = DEBUG

# ---------- safety ----------
# Plain HTTP is for one machine; behind a TLS proxy set HTTPS=true.
HTTPS = env.boolean("HTTPS", default=False)
SECURE_SSL_REDIRECT = HTTPS
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SECURE_HSTS_SECONDS = env.integer("HSTS_SECONDS", 31_536_000 if HTTPS else 0)
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
CSRF_FAILURE_VIEW = "apps.core.errors.csrf_failure"
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        # Positions (--at, --hold) are custom properties in style attributes.
        "style-src": [SELF],
        "style-src-attr": ["'unsafe-inline'"],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
        "manifest-src": [SELF],
    }
}
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024

LOG_LEVEL = env.read("LOG_LEVEL", "INFO")
if LOG_LEVEL not in {"DEBUG", "INFO", "WARNING", "ERROR"}:
    raise ImproperlyConfigured("LOG_LEVEL must be DEBUG, INFO, WARNING or ERROR.")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    # Two lines for each of several tasks a second would say nothing.
    "loggers": {
        "celery.app.trace": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
    },
}
