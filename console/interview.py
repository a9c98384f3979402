"""Questions in plain text, an answer a line: a person is asked again, answers from a pipe are refused.

Questions go to standard error, so that `--json` is alone on standard output. `?` shows more about a question, and
Ctrl-C ends the interview. What is done with the answers is done after the last of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, TextIO, TypeVar

from console.errors import Interrupted
from contracts.errors import Finding, Refused
from contracts.reading.scalars import is_not_plain

Answer = TypeVar("Answer")
LONGEST = 20_000
STOPPED = "stopped; nothing was written"
_SHOWN = 3


class AnswerRefused(Refused):
    """An answer from a pipe cannot be followed, or there are fewer answers than questions; nothing was written."""


class Misunderstood(Exception):
    """An answer is none to the question; the sentence says why, and what is one."""


class Interview:
    """Questions on a stream of text and the answers to them.

    Args:
        answers: where lines are read: a terminal, or a pipe or file that holds the answers in order.
        questions: where questions are written.
    """

    def __init__(self, answers: TextIO, questions: TextIO) -> None:
        self._answers, self._questions = answers, questions
        self._asks_again = answers.isatty()
        self._number = 0

    def say(self, *lines: str) -> None:
        """Write lines that ask nothing."""
        self._questions.write("".join(f"{line}\n" for line in lines))
        self._questions.flush()

    def ask(
        self, question: str, read: Callable[[str], Answer], *, default: str | None = None, more: Sequence[str] = ()
    ) -> Answer:
        """Ask until an answer can be read, and return what was read.

        Args:
            question: in words, on one line.
            read: makes of the answer what is wanted; raises `Misunderstood`, or a refusal, with what is wrong.
            default: the answer of an empty line; without it there has to be one.
            more: what `?` shows.
        Raises:
            AnswerRefused: the answers come from a pipe, and this one is none or missing.
            Interrupted: a person closed the terminal's input.
        """
        self._number += 1
        while True:
            self.say("", question + ("" if default is None else f"  [{default}]"))
            answer = self._line(question)
            if answer == "?":
                self.say(*(more or ("Nothing more is known about this question.",)))
                continue
            try:
                return read(_plain(answer or default))
            except (Misunderstood, Refused) as problem:
                self._misunderstood(question, problem)

    def _line(self, question: str) -> str:
        """Read one line; a pipe's is shown, since nobody typed it on the terminal."""
        self._questions.write("> ")
        self._questions.flush()
        try:
            line = self._answers.readline(LONGEST)
        except UnicodeDecodeError:
            self._refuse(question, "an answer that is not UTF-8", "type it in UTF-8")
        if not line and self._asks_again:
            raise Interrupted(STOPPED)
        if not line:
            self._refuse(question, "no more answers", "answer in a terminal, or give a line for each question")
        if not self._asks_again:
            self.say(line.strip())
        return line.strip()

    def _misunderstood(self, question: str, problem: Misunderstood | Refused) -> None:
        sentences = _sentences(problem)
        if not self._asks_again:
            self._refuse(question, "; ".join(sentences), "mend the answer, or answer in a terminal")
        self.say(*(f"  ! {sentence}" for sentence in sentences))

    def _refuse(self, question: str, found: str, remedy: str) -> NoReturn:
        place = f"answer {self._number}"
        allowed = f"an answer to: {question.strip()}"
        raise AnswerRefused([Finding("sudare new", place, found, allowed, f"{remedy}; nothing was written")])


def read_yes(typed: str) -> bool:
    """Read yes or no."""
    if typed.casefold() not in ("yes", "y", "no", "n"):
        raise Misunderstood("yes or no")
    return typed.casefold() in ("yes", "y")


def _plain(answer: str | None) -> str:
    if not answer:
        raise Misunderstood("there is no default: this one is yours to decide; type ? for more")
    if is_not_plain(answer) or len(answer) >= LONGEST - 1:
        raise Misunderstood("type it on one line, without characters that cannot be seen")
    return answer


def _sentences(problem: Misunderstood | Refused) -> list[str]:
    """Return what is wrong, a sentence for each finding; no more than a screen holds."""
    if isinstance(problem, Misunderstood):
        return [str(problem)]
    listed = [
        f"found {each.found}; allowed {each.allowed}" + (f"; {each.remedy}" if each.remedy else "")
        for each in problem.findings
    ]
    more = len(listed) - _SHOWN
    return [*listed[:_SHOWN], *([f"and {more} more of this kind"] if more > 0 else [])]
