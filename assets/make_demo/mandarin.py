"""The Mandarin that the demo model understands: spoken commands in simplified characters, without spaces."""

import random
import re

SLOTS: dict[str, str] = {
    "room": "厨房 卧室 客厅 书房 车库 花园",
    "device": "灯 电视 空调 风扇 电脑",
    "cover": "门 窗户 窗帘",
    "digit": "零 一 二 三 四 五 六 七 八 九",
    "hour": "一 两 三 四 五 六 七 八 九 十",
    "unit": "分钟 小时 秒",
    "when": "今天 明天 后天 今天晚上 明天早上",
    "city": "北京 上海 广州 南京 天津",
    "music": "音乐 歌曲 新闻 故事",
    "action": "开会 买菜 吃药 喝水 打电话 回家 睡觉",
    "person": "妈妈 爸爸 老师 医生 朋友",
    "colour": "红色 蓝色 绿色 黄色 白色 黑色",
    "thing": "苹果 水果 面包 牛奶 鸡蛋 书",
    "weekday": "一 二 三 四 五 六 天",
}

TEMPLATES: tuple[tuple[int, str], ...] = (
    (4, "打开{room}的{device}"),
    (4, "关闭{room}的{device}"),
    (2, "请打开{device}"),
    (2, "关上{room}的{cover}"),
    (4, "{when}{city}天气怎么样"),
    (2, "{when}会下雨吗"),
    (2, "{city}{when}冷不冷"),
    (3, "设置{number}{unit}的闹钟"),
    (2, "{when}{hour}点叫我起床"),
    (2, "播放{music}"),
    (1, "停止播放{music}"),
    (3, "提醒我{when}{action}"),
    (3, "提醒我{hour}点{action}"),
    (2, "给{person}打电话"),
    (2, "告诉{person}我{when}回家"),
    (3, "把{room}的灯变成{colour}"),
    (3, "我要买{number}个{thing}"),
    (2, "{colour}的{thing}"),
    (3, "{digit}{digit}{digit}{digit}"),
    (2, "号码是{digit}{digit}{digit}{digit}{digit}"),
    (2, "今天星期{weekday}"),
    (2, "星期{weekday}{hour}点{action}"),
    (1, "现在几点"),
    (1, "你好"),
    (1, "谢谢"),
    (1, "再见"),
    (1, "早上好"),
)

_WORDS = {name: text.split() for name, text in SLOTS.items()}


def number(rng: random.Random) -> str:
    """A number from two to ninety nine, in characters."""
    value = rng.randint(2, 99) if rng.random() < 0.5 else rng.randint(2, 10)
    if value == 2:
        return "两"
    digits = _WORDS["digit"]
    tens, ones = divmod(value, 10)
    if tens == 0:
        return digits[ones]
    return ("" if tens == 1 else digits[tens]) + "十" + (digits[ones] if ones else "")


def sentence(rng: random.Random) -> str:
    """One command, templates drawn by their weights."""
    template = rng.choices([text for _, text in TEMPLATES], [weight for weight, _ in TEMPLATES])[0]

    def draw(match: re.Match[str]) -> str:
        return number(rng) if match.group(1) == "number" else rng.choice(_WORDS[match.group(1)])

    return re.sub(r"\{(\w+)\}", draw, template)


def characters() -> list[str]:
    """Every character that a sentence can hold, sorted."""
    text = (
        "".join(SLOTS.values())
        + "".join(re.sub(r"\{\w+\}", "", template) for _, template in TEMPLATES)
        + "两十"
    )
    return sorted(set(text.replace(" ", "")))
