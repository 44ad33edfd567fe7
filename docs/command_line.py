"""Write the reference of the command line from the commands themselves: python docs/command_line.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from tensorbandits.cli import application
from tensorbandits.report.page import markdown_table

PAGE = Path(__file__).parent / "reference" / "command-line.md"


def reference() -> str:
    """Return the page."""
    parts = ["# Command line", "Made of the commands' own help by `python docs/command_line.py`."]
    for name, command in flat(typer.main.get_command(application()).commands):
        arguments = [option for option in command.params if option.param_type_name == "argument"]
        names = [each.name.upper() if each.required else f"[{each.name.upper()}]" for each in arguments]
        usage = " ".join(["tensorbandits", name, *names, "[OPTIONS]"])
        rows = [row(option) for option in command.params]
        table = markdown_table(["option", "what", "default"], rows)
        parts += [f"## {name}", command.help, f"```console\n{usage}\n```", table]
    return "\n\n".join(parts) + "\n"


def flat(commands) -> Iterator[tuple[str, Any]]:
    """Yield commands by name, those of a group by two names."""
    for name, command in commands.items():
        if hasattr(command, "commands"):
            yield from ((f"{name} {inner}", one) for inner, one in command.commands.items())
        else:
            yield name, command


def row(option) -> list[str]:
    default = "required" if option.required else option.default
    shown = (
        ""
        if default is None or default is False or default == ""
        else f"`{default}`"
        if default != "required"
        else default
    )
    name = option.name.upper() if option.param_type_name == "argument" else f"`{option.opts[0]}`"
    return [name, (option.help or "").replace("|", "\\|"), shown]


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
