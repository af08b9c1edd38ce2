"""``crdtstream completion``: scripts by which shells complete both programs.

A script hands the line up to the cursor to the program itself, in a variable; the program prints
the words that fit, one a line, and does nothing else.  So what the shell offers is what the program
takes, and numbers of regions and parameters are those of the nodes at that moment.
"""

from enum import StrEnum
from typing import Annotated, Final

import typer

from crdtstream.command_line.completing import VARIABLE


class Shell(StrEnum):
    """Shells that complete both programs."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


SCRIPTS: Final = {
    # Bash splits words at colons; what stands before the last one is on the line already.
    Shell.BASH: f"""\
_crdtstream_complete() {{
    local line=${{COMP_LINE:0:COMP_POINT}}
    local begun=${{line##*[[:space:]]}}
    mapfile -t COMPREPLY < <({VARIABLE}=$line "$1" 2>/dev/null)
    if [[ $begun == *:* && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=("${{COMPREPLY[@]#"${{begun%"${{begun##*:}}"}}"}}")
    fi
}}
complete -o bashdefault -o default -F _crdtstream_complete crdtstream rladmin
""",
    Shell.ZSH: f"""\
#compdef crdtstream rladmin
_crdtstream_complete() {{
    local -a found
    found=("${{(@f)$({VARIABLE}="${{(j: :)words[1,CURRENT]}}" "${{words[1]}}" 2>/dev/null)}}")
    if [[ -n $found[1] ]]; then
        compadd -- $found
    else
        _files
    fi
}}
compdef _crdtstream_complete crdtstream rladmin
""",
    Shell.FISH: f"""\
function __crdtstream_complete
    set -l words (commandline -opc)
    set -lx {VARIABLE} (commandline -cp)
    set -l found ($words[1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c crdtstream -f -a '(__crdtstream_complete)'
complete -c rladmin -f -a '(__crdtstream_complete)'
""",
}


def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell that reads the script.")],
) -> None:
    """Print a script that makes Tab complete crdtstream and rladmin in a shell.

    It completes commands, options, tables and columns, and asks the nodes for numbers of regions,
    databases and parameters.

    bash: echo 'source <(crdtstream completion bash)' >> ~/.bashrc

    zsh: echo 'source <(crdtstream completion zsh)' >> ~/.zshrc (behind compinit)

    fish: crdtstream completion fish > ~/.config/fish/completions/crdtstream.fish, and a copy of it
    as rladmin.fish

    Example: crdtstream completion bash

    Exit status: 0 printed, 2 misuse.
    """
    typer.echo(SCRIPTS[shell], nl=False)
