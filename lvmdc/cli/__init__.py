"""The commands: `lvmdc train` and the others, which scripts/*.py call too.

Nothing heavy is imported before a command is chosen: `lvmdc --help` and the completion of names answer at once.
"""

from __future__ import annotations

import difflib
import os
import sys
from importlib import import_module

COMMANDS = {  # name: its function, what it does, an example
    "train": ("train.main", "train a model, or with -m many", "experiment=object_detection"),
    "eval": ("evaluate.main", "measure a checkpoint on the test part of its data", "ckpt_path=logs/object_detection/runs/RUN"),
    "predict": ("evaluate.predict_main", "find the objects in new images", "ckpt_path=logs/object_detection/runs/RUN input=photos/"),
    "reproduce": ("reproduce.main", "run the paper's experiments", "figure=demo"),
    "prepare": ("prepare.main", "bring a public data set into the expected layout", "mammals source=spl"),
    "proposals": ("proposals.main", "write the boxes of a data set to a file", "data=stick_actions proposals=people output=boxes.npz"),
    "table": ("table.main", "show the results of many runs in one table", "logs/object_detection/sweeps/SWEEP"),
    "info": ("info.main", "show versions, devices, data sets found and the size of the cache", ""),
}
COMPOSED = {"train": "train", "eval": "eval", "predict": "predict", "reproduce": "reproduce", "proposals": "make_proposals"}  # by Hydra
COMPLETION = ("-sc", "--shell-completion")


def main() -> None:
    """The program `lvmdc`: what follows the name of a command is for that command."""
    try:
        choose(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # of `lvmdc | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def choose(words: list[str]) -> None:
    """Run the command that the first word names."""
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())  # noqa: T201
    elif words[0] in ("-V", "--version"):
        import_module("lvmdc.cli.info").print_version()
    elif words[0] in COMPLETION:
        complete(words)
    elif words[0] in COMMANDS:
        start(words[0], words[1:])
    else:
        near = difflib.get_close_matches(words[0], COMMANDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(COMMANDS)}"
        sys.exit(f"error: there is no command {words[0]!r}: {hint}")


def start(name: str, words: list[str]) -> None:
    """Run a command with its words; its help and the completion of its words need only its configuration."""
    if name in COMPOSED and {"-h", "--help", *COMPLETION} & {*words}:
        import_module("lvmdc.cli.errors").run(COMPOSED[name], None, words)
        return
    module, _, function = COMMANDS[name][0].partition(".")
    getattr(import_module(f"lvmdc.cli.{module}"), function)(words)


def overview() -> str:
    """All commands, with an example each.

    >>> print(overview().splitlines()[2])
    Usage: lvmdc COMMAND [group=choice] [setting=value]
    """
    lines = [
        "lvmdc: learning with latent variables, in PyTorch.",
        "",
        "Usage: lvmdc COMMAND [group=choice] [setting=value]",
        "",
        "Commands:",
    ]
    lines += [f"  {name:<10} {what}" for name, (_, what, _) in COMMANDS.items()]
    lines += ["", "Examples:", *(f"  lvmdc {name} {example}".rstrip() for name, (_, _, example) in COMMANDS.items())]
    lines += ["", "`lvmdc COMMAND --help` explains a command. Replace RUN and SWEEP by the name of a folder, which each run prints."]
    lines += ['Completion of commands, groups and settings in bash: eval "$(lvmdc -sc install=bash)"; also for zsh and fish.']
    return "\n".join(lines)


def complete(words: list[str]) -> None:
    """Answer a shell that asks how the line goes on, or print what installs that; the words of a command are completed by Hydra."""
    if not any(word.startswith("query=") for word in words):
        start("train", words)  # install= and uninstall= are the same for all
        return
    line = os.environ.get("COMP_LINE", "")
    typed = line.split()
    if len(typed) < 2 or (len(typed) == 2 and not line[-1:].isspace()):
        print(" ".join(COMMANDS))  # noqa: T201
    elif typed[1] in COMPOSED:
        program, name, rest = (*line.split(maxsplit=2), "")[:3]
        os.environ["COMP_LINE"] = f"{program} {rest}"
        start(name, words)
