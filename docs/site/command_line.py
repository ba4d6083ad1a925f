"""The page about the command line, from what the commands say of themselves."""

from collections.abc import Iterator

import typer

from placewright.cli.app import whole_app


def document_command_line() -> str:
    """Markdown: a section for each command, with its usage, arguments, options and examples."""
    return "\n".join(_sections(typer.main.get_command(whole_app()), "placewright", None))


def _sections(
    command: typer.core.TyperCommand | typer.core.TyperGroup, name: str, parent: typer.Context | None
) -> Iterator[str]:
    context = typer.Context(command, info_name=name, parent=parent)
    if parent is not None:
        yield f"\n## {context.command_path}\n"
        yield (command.help or "").strip()
    members = command.commands if isinstance(command, typer.core.TyperGroup) else {}
    if not members:
        yield f"\n```sh\n{' '.join(command.get_usage(context).removeprefix('Usage: ').split())}\n```\n"
        yield from _options(command, context)
        yield _examples(command.epilog or "")
    for word, member in members.items():
        yield from _sections(member, word, context)


def _options(command: typer.core.TyperCommand, context: typer.Context) -> Iterator[str]:
    records = [record for one in command.get_params(context) if (record := one.get_help_record(context))]
    yield "```{rst-class} options\n```\n\n| option | meaning |\n|---|---|"
    for option, text in records:
        yield f"| `{option}` | {text.replace('|', chr(92) + '|').replace('*', chr(92) + '*')} |"


def _examples(epilog: str) -> str:
    """The lines below "Examples:", which are comments and commands."""
    lines = [line.strip() for line in epilog.splitlines() if line.strip(" \b") and line.strip() != "Examples:"]
    return "\n```sh\n" + "\n".join(lines) + "\n```\n" if lines else ""
