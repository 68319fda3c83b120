"""`completion bash|zsh|fish`: the script that makes a shell complete the commands and options.

The scripts ask the program itself, in the protocol of `typer`: a variable names the shell, and the program
prints what fits.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

PROGRAM = "pyoco-client"
VARIABLE = "_PYOCO_CLIENT_COMPLETE"

BASH = f"""\
# To load it in each shell:
#   {PROGRAM} completion bash > ~/.local/share/bash-completion/completions/{PROGRAM}
_pyoco_client_completion() {{
    local IFS=$'\\n'
    COMPREPLY=( $( env COMP_WORDS="${{COMP_WORDS[*]}}" COMP_CWORD=$COMP_CWORD \\
                   {VARIABLE}=complete_bash "$1" ) )
    return 0
}}
complete -o default -F _pyoco_client_completion {PROGRAM}
"""
ZSH = f"""\
#compdef {PROGRAM}
# To load it in each shell:
#   {PROGRAM} completion zsh > "${{fpath[1]}}/_{PROGRAM}"
_pyoco_client_completion() {{
  eval $(env _TYPER_COMPLETE_ARGS="${{words[1,$CURRENT]}}" {VARIABLE}=complete_zsh {PROGRAM})
}}
if [ "$funcstack[1]" = "_{PROGRAM}" ]; then
  _pyoco_client_completion "$@"
else
  compdef _pyoco_client_completion {PROGRAM}
fi
"""
# The condition asks, and the arguments are what it found: one start of the program for each Tab.
FISH = f"""\
# To load it in each shell:
#   {PROGRAM} completion fish > ~/.config/fish/completions/{PROGRAM}.fish
function _pyoco_client_completion
    set -g _pyoco_client_found (env {VARIABLE}=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args \\
                                _TYPER_COMPLETE_ARGS=(commandline -cp) {PROGRAM})
    test -n "$_pyoco_client_found"
end
complete --command {PROGRAM} --no-files --condition _pyoco_client_completion \\
    --arguments '(printf "%s\\n" $_pyoco_client_found)'
"""


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


SCRIPTS = {Shell.BASH: BASH, Shell.ZSH: ZSH, Shell.FISH: FISH}


def completion(shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.")]) -> None:
    """Print the script for completion in a shell."""
    sys.stdout.write(SCRIPTS[shell])
