"""The word list that tells a disguised word from a product name or a number.

`m0n3y` is read as "money" because that is a word; `log4j` and `mp3` are left alone because no
reading of them is. The list holds the words that disguises aim at (below) and the ordinary English
words of the training rows, each on its own and in alphabetical order.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from apps.releases.training.corpus import Row

SMALLEST_COUNT = 5
SMALLEST_SOURCES = 2
PLAIN_WORD = re.compile(r"(?<![\w@#/.])[a-z]{4,14}(?![\w@])")

# fmt: off
TARGETS = frozenset((
    "account", "add", "adult", "airdrop", "ass", "bank", "bastard", "bet", "betting", "binance",
    "bitch", "bitcoin", "bonus", "boobs", "bot", "buy", "cash", "cashback", "casino", "chat",
    "cheap", "click", "cock", "coin", "coins", "credit", "crypto", "cum", "cunt", "deal",
    "deals", "deposit", "dick", "dickhead", "die", "discord", "discount", "dollar", "dollars",
    "dumb", "earn", "escort", "ethereum", "exchange", "fag", "faggot", "fake", "fast", "follow",
    "followers", "forex", "freak", "free", "fuck", "fucked", "fucker", "fucking", "gamble",
    "gambling", "gift", "girl", "girls", "giveaway", "gold", "group", "guaranteed", "hack",
    "hacker", "hate", "hell", "hot", "idiot", "inbox", "income", "instagram", "invest",
    "investment", "jackpot", "jerk", "job", "join", "kill", "link", "loan", "loans", "loser",
    "lottery", "lucky", "make", "market", "massage", "member", "message", "money", "moron",
    "mother", "nazi", "nigga", "nigger", "nude", "nudes", "offer", "online", "onlyfans",
    "order", "paypal", "penis", "phone", "piss", "poker", "porn", "pornhub", "price", "prize",
    "prizes", "profit", "pussy", "rape", "retard", "retarded", "reward", "rich", "rubbish",
    "sale", "scam", "seed", "sex", "sexy", "shit", "shitty", "shop", "signal", "slot", "slots",
    "slut", "snapchat", "spin", "spins", "stupid", "suck", "sucker", "sucks", "suicide",
    "telegram", "text", "trade", "trader", "trading", "trash", "twat", "ugly", "vagina",
    "verify", "viagra", "video", "videos", "vip", "wallet", "wanker", "wechat", "whatsapp",
    "whore", "win", "winner", "wire", "work", "www", "xxx", "yourself", "yourselves",
))
# fmt: on


def build_lexicon(rows: Iterable[Row]) -> frozenset[str]:
    """Words that English training rows of several sources use, and the usual targets."""
    counts: Counter[str] = Counter()
    sources: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.lang != "en":
            continue
        for word in set(PLAIN_WORD.findall(row.text.lower())):
            counts[word] += 1
            sources[word].add(row.source)
    common = {
        word
        for word, count in counts.items()
        if count >= SMALLEST_COUNT and len(sources[word]) >= SMALLEST_SOURCES
    }
    # A stretched spelling that people use often is not a word of its own.
    return TARGETS | {word for word in common if not re.search(r"(.)\1\1", word)}


def lexicon_text(lexicon: frozenset[str]) -> str:
    """The file the tokenizer reads."""
    return "\n".join(sorted(lexicon)) + "\n"
