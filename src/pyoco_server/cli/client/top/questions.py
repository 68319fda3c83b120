"""A question over the screen, answered with y or n."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static


class Question(ModalScreen[bool]):
    """Returns whether the answer is yes."""

    CSS = """
    Question { align: center middle; }
    Question > Vertical { width: 60; max-width: 90%; height: auto; border: solid $warning; padding: 1 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape", "answer(False)", "No", key_display="n"),
    ]

    def __init__(self, asked: str) -> None:
        super().__init__()
        self._asked = asked

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._asked, markup=False)
            yield Static("\ny: yes    n: no", markup=False)

    def action_answer(self, is_yes: bool) -> None:
        self.dismiss(is_yes)
