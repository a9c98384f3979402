"""A sentence of ours: its English text, with the template and the parameters that other languages are filled from.

A message is a text, and reads as English wherever a text is expected. Its template is its id in the catalogues of
messages. A parameter is a message, several of them, a number, or somebody's own words, which no language changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any, Final


class Message(str):
    """A text in English that knows what it was filled from.

    Args:
        template: English, with slots in braces where there are parameters; the id in the catalogues.
        parameters: what fills the slots.
        many: the template for other numbers than one, where they differ.
        number: which of the two forms is taken.
    """

    __slots__ = ("many", "number", "parameters", "template")
    template: str
    parameters: dict[str, Any]
    many: str | None
    number: int

    def __new__(
        cls, template: str, parameters: dict[str, Any] | None = None, many: str | None = None, number: int = 1
    ) -> Message:
        """Fill the template in English."""
        form = template if many is None or number == 1 else many
        words = {name: english(value) for name, value in (parameters or {}).items()}
        message = super().__new__(cls, form.format(**words) if words else form)
        message.template, message.parameters = template, parameters or {}
        message.many, message.number = many, number
        return message

    def __reduce__(self) -> tuple[type[Message], tuple[Any, ...]]:
        """Pickle what the text is filled from."""
        return Message, (self.template, self.parameters, self.many, self.number)


@dataclass(frozen=True)
class JoinedTexts:
    """Several texts as one parameter.

    Args:
        parts: the texts.
        separator: what stands between two of them; a language may have another.
    """

    parts: tuple[str, ...]
    separator: Message


def message(template: str, /, **parameters: Any) -> Message:
    """Write a sentence; without parameters the template is the sentence, braces and all, or one already."""
    return template if isinstance(template, Message) else Message(template, parameters)


def plural(one: str, many: str, number: int, /, **parameters: Any) -> Message:
    """Write a sentence in the form that its number asks for."""
    return Message(one, parameters, many, number)


def joined(parts: Iterable[str], separator: Message | None = None) -> Message:
    """Join texts into one; commas stand between them, unless another separator does."""
    return message("{parts}", parts=JoinedTexts(tuple(parts), COMMA if separator is None else separator))


def english(parameter: Any) -> str:
    """Write a parameter in English."""
    if isinstance(parameter, JoinedTexts):
        return str(parameter.separator).join(str(part) for part in parameter.parts)
    return str(parameter)


COMMA: Final = message(", ")
SEMICOLON: Final = message("; ")
AND: Final = message(" and ")
OR: Final = message(" or ")
SENTENCES: Final = message(" ")
"""Between two sentences."""


def messages_to_json(value: Any, *, inside: bool = False) -> Any:
    """Return JSON values in which a message is its template and its parameters; a bare one stays a text.

    Args:
        value: what is written.
        inside: whether it fills a message: there a bare message must not become somebody's words.
    """
    if isinstance(value, Message) and (value.parameters or inside):
        many = {} if value.many is None else {"many": value.many, "number": value.number}
        return {"template": value.template, "parameters": messages_to_json(value.parameters, inside=True), **many}
    if isinstance(value, JoinedTexts):
        return {"parts": messages_to_json(list(value.parts), inside=True), "separator": value.separator}
    if isinstance(value, Mapping):
        return {key: messages_to_json(part, inside=inside) for key, part in value.items()}
    return [messages_to_json(part, inside=inside) for part in value] if isinstance(value, list | tuple) else value


def messages_from_json(value: Any) -> Any:
    """Read messages back from what `messages_to_json` wrote; an object that is none of these stays."""
    if isinstance(value, list):
        return [messages_from_json(part) for part in value]
    if not isinstance(value, dict):
        return value
    if value.keys() - {"many", "number"} == {"template", "parameters"} and _fits(value):
        parameters = {name: _parameter_from_json(part) for name, part in value["parameters"].items()}
        return Message(value["template"], parameters, value.get("many"), value.get("number", 1))
    return {key: messages_from_json(part) for key, part in value.items()}


def _parameter_from_json(value: Any) -> Any:
    """Read a parameter back; texts are joined by separators of ours alone, for a stranger's might be long."""
    if isinstance(value, dict) and value.keys() == {"parts", "separator"} and isinstance(value["parts"], list):
        for separator in (COMMA, SEMICOLON, AND, OR, SENTENCES):
            if value["separator"] == separator:
                return JoinedTexts(tuple(map(messages_from_json, value["parts"])), separator)
    return messages_from_json(value)


def _fits(value: dict[str, Any]) -> bool:
    """Say whether templates have plain slots alone, each filled and each once.

    A stranger's might name attributes, or widths; or repeat a slot, so that nested messages double at each level.
    """
    templates = [value["template"], *([value["many"]] if "many" in value else [])]
    if not isinstance(value["parameters"], dict) or not all(isinstance(text, str) for text in templates):
        return False
    return all(_plain(text, value["parameters"]) for text in templates)


def _plain(template: str, parameters: dict[str, Any]) -> bool:
    try:
        slots = [slot for slot in Formatter().parse(template) if slot[1] is not None]
    except ValueError:  # a brace that nothing closes
        return False
    once = len({name for _, name, _, _ in slots}) == len(slots)
    return once and all(name in parameters and not form and how is None for _, name, form, how in slots)
