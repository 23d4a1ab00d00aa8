"""What is said in the demo's groups. Every line was written for this file; nobody ever said it."""

from __future__ import annotations

from dataclasses import dataclass

# A conversation is lines in turn; `{slot}` is filled once for the whole conversation.
Conversation = tuple[str, ...]


@dataclass(frozen=True)
class Scene:
    """A group: who is in it, what they talk about, and what strangers push into it."""

    group: str
    members: tuple[str, ...]
    conversations: tuple[Conversation, ...]
    slots: dict[str, tuple[str, ...]]
    asides: tuple[str, ...]


CYCLING = Scene(
    group="riverside-cycling",
    members=("Mara", "Joss", "Devin", "Old Pete", "Sunniva", "Kwame", "Tilly", "Bo"),
    conversations=(
        (
            "anyone up for the {place} loop on {day}?",
            "I'm in, what time?",
            "{time} at the bridge, lights on please",
            "make it half an hour later and I'll bring coffee",
            "deal, half an hour later then",
        ),
        (
            "my rear derailleur skips on the {gear} sprocket, ideas?",
            "bent hanger most likely",
            "or the cable has stretched, turn the barrel a quarter at a time",
            "a quarter turn did it, thanks!",
        ),
        (
            "the path by the {place} is flooded again",
            "how deep?",
            "over the hubs, take the road",
            "the city promised drains two winters ago…",
            "and two winters from now they'll promise them again",
        ),
        (
            "who lost a {colour} glove after {day}'s ride?",
            "mine! left hand?",
            "left hand, smells of chain oil",
            "definitely mine",
        ),
    ),
    slots={
        "place": ("reservoir", "quarry", "old mill", "heron pond", "ferry"),
        "day": ("Saturday", "Sunday", "Thursday", "Wednesday"),
        "time": ("7:30", "eight", "6:45", "nine sharp"),
        "gear": ("third", "smallest", "second largest"),
        "colour": ("green", "grey", "bright orange", "black"),
    },
    asides=(
        "headwind both ways today, how does that even work",
        "new personal best up the hill, 11 minutes flat 🎉",
        "photo of the sunrise is in the album",
        "who has a spare inner tube, 28 mm?",
        "that climb nearly killed me, loved every metre",
        "I'd murder for a coffee right now",
    ),
)

GAME = Scene(
    group="lanternfall-guild",
    members=("NightOwl", "Pikkle", "sir_toast", "Vex", "Hanako", "grumblebee", "Zed", "Moth"),
    conversations=(
        (
            "raid tonight, we need one more {role}",
            "I can bring my {role}, is {count}k power enough?",
            "plenty, boss hits like a wet towel since the patch",
            "famous last words",
            "see you all at {time}",
        ),
        (
            "did the {item} drop for anybody?",
            "third week in a row without it here",
            "got it yesterday and vendored it by accident",
            "you did NOT",
            "I did. don't look at me",
        ),
        (
            "that fight was a mess, what happened on the {phase} phase?",
            "I stood in the fire, sorry",
            "you always stand in the fire",
            "it's warm there",
        ),
    ),
    slots={
        "role": ("healer", "tank", "archer", "bard"),
        "count": ("40", "52", "61"),
        "time": ("nine", "21:30", "half past eight"),
        "item": ("lantern shard", "moth cloak", "tide ring"),
        "phase": ("second", "last", "shield"),
    },
    asides=(
        "gg everyone, cleanest run so far",
        "brb, cat is on the keyboardddddd",
        "kill the adds first, then the healer, then celebrate",
        "server maintenance at 4, log out in a town",
        "lol what a shot",
        "whoever keeps pulling early: I love you but stop",
    ),
)

PARENTS = Scene(
    group="class-4b-parents",
    members=("Ines (Theo's mum)", "Ravi", "Carla", "Mr Osei", "Yuki", "Tomasz", "Bea"),
    conversations=(
        (
            "is the trip to the {place} on {day} or the day after?",
            "{day}, they need a packed lunch",
            "and wellies, it rained all week",
            "thank you, I'd have sent sandals",
        ),
        (
            "who can bring {food} for the summer party?",
            "I can, no nuts, right?",
            "right, two in the class are allergic",
            "then I'll label everything",
        ),
        (
            "{child} came home with a blue jumper that isn't ours",
            "does it say M. Okafor inside?",
            "it does!",
            "then ours is the one without a name, swap at the gate?",
        ),
    ),
    slots={
        "place": ("science museum", "farm", "lighthouse", "paper mill"),
        "day": ("Tuesday", "Friday", "the 14th"),
        "food": ("fruit", "savoury things", "lemonade", "paper plates"),
        "child": ("Ella", "Sami", "Niko"),
    },
    asides=(
        "choir practice is cancelled today",
        "found: one tooth in a paper napkin. It's important to somebody.",
        "reminder: library books back by Monday",
        "parking in front of the gate again… please don't",
        "the maths homework took us an hour and we are both engineers",
    ),
)

HIKERS = Scene(
    group="周末徒步群",
    members=("老周", "小鹿", "阿杰", "林姐", "山风", "豆豆", "大鹏", "南南"),
    conversations=(
        (
            "{day}去{place}有人一起吗？",
            "我去，几点集合？",
            "早上{time}，地铁口东南角",
            "带够水，上次那段路没有补给",
            "好的，我多背两升",
        ),
        (
            "昨天走完膝盖疼，怎么缓解？",
            "先冰敷，这两天别爬楼",
            "下坡记得用登山杖，能省不少力",
            "收到，今天就下单一副",
        ),
        (
            "有人看到我的{thing}吗？应该落在{place}了",
            "是不是蓝色的那个？在我包里",
            "太好了，下次见面拿给你",
        ),
    ),
    slots={
        "day": ("周六", "周日", "这周六", "下周日"),
        "place": ("香炉峰", "北沟古道", "云蒙水库", "九道湾"),
        "time": ("七点", "七点半", "八点整"),
        "thing": ("水壶", "头灯", "遮阳帽"),
    },
    asides=(
        "今天空气真好，能看到城里的塔",
        "山里下雨了，出门的朋友注意路滑",
        "照片已经传到相册里了，大家自己取",
        "累死我了，但是值得",
        "谁有多余的防潮垫借我一天",
    ),
)

KITCHEN = Scene(
    group="深夜厨房",
    members=("阿香", "胖虎叔", "酱油君", "小满", "陈皮", "米粒", "阿婆的锅"),
    conversations=(
        (
            "{dish}要炖多久才软？",
            "小火一个半小时，别掀盖",
            "放点山楂，熟得快",
            "试了，真的软！谢谢",
        ),
        (
            "家里只剩{veg}和鸡蛋，能做什么",
            "切丝炒一盘，出锅前点几滴醋",
            "我会再加点虾皮",
            "那就这么定了，饿了饿了",
        ),
        (
            "这次的{dish}翻车了，太咸",
            "加块土豆再煮十分钟",
            "土豆也咸了怎么办",
            "那就叫它咸土豆，换个名字端上去",
        ),
    ),
    slots={
        "dish": ("牛腩", "红烧肉", "羊排", "猪蹄"),
        "veg": ("西葫芦", "豆角", "胡萝卜", "卷心菜"),
    },
    asides=(
        "今天菜市场的番茄特别好，三块一斤",
        "半夜看这个群就是折磨自己",
        "新锅开好了，闪闪发亮",
        "求一个不用烤箱的蛋糕方子",
        "我妈说我做的比饭店好吃，开心一整天",
    ),
)

SCENES = (CYCLING, GAME, PARENTS, HIKERS, KITCHEN)

# ---------- nuisances; `{n}` is a number that differs from copy to copy ----------
CAMPAIGNS: dict[str, tuple[str, ...]] = {
    "en": (
        "Earn ${n} a day from home, no experience! Write me on t3legram @quick_money_{n}",
        "FREE gift cards, only {n} left, claim yours: gifts-{n}.example/win",
        "Hot discount on brand watches, {n}% off today only, shop at watches{n}.example",
        "I doubled my coins in {n} hours with this signal group, join: signals-{n}.example",
        "Cheap followers, {n} for five dollars, delivered in minutes, DM me now",
    ),
    "zh": (
        "兼职刷单日结{n}元，在家就能做，加微信 jz{n} 详聊",
        "高仿名表包包，厂家直销，{n}折包邮，加V：bao{n}",
        "贷款秒批无抵押，最高{n}万，点击 dk{n}.example 马上到账",
        "稳赚不赔，跟着老师做，三天翻倍，进群暗号{n}",
        "代开各类发票，点数低，联系QQ {n}",
    ),
}
INSULTS: dict[str, tuple[str, ...]] = {
    "en": (
        "you are a pathetic little worm and everybody here knows it",
        "shut up, idiot, nobody asked for your garbage opinion",
        "what a bunch of braindead losers, go cry to your mothers",
        "get lost, you disgusting clown, and don't come back",
    ),
    "zh": (
        "你这个废物，闭嘴吧，没人想听你说话",
        "一群傻子，脑子都被门夹过吧",
        "滚出去，恶心的东西，看见你就烦",
        "真是个白痴，活该没有朋友",
    ),
}
# Sellers who are members: people may well disagree about these.
BORDERLINE: dict[str, tuple[str, ...]] = {
    "en": (
        "selling my old wheelset, {n} euros, message me if interested",
        "my sister opened a bakery, 10% off this week for everybody in here",
        "use my invite code {n} and we both get a month free",
        "this is the dumbest plan since the flood ride, and I'm coming anyway",
    ),
    "zh": (
        "自家种的橙子，{n}元一箱，要的私聊我",
        "朋友的小店开业，报我名字打八折",
        "用我的邀请码 {n} 注册，咱俩都有优惠",
        "你可真够笨的，哈哈，下次我教你",
    ),
}
CROWD: dict[str, tuple[str, ...]] = {
    "en": ("GOOOAL", "no way!!!", "did you see that", "yesss", "what a finish", "unbelievable 😂"),
    "zh": ("进了！！！", "太强了", "哈哈哈哈哈", "不敢相信", "看到了吗", "牛啊"),
}
