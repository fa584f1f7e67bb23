
# What follows `--` is a command. bash-completion, where it is loaded, completes its arguments as
# that command wants them; else the first word is a command, and others are files.
_becalm_or_command() {
    local at
    for ((at = 1; at < COMP_CWORD; at++)); do
        [[ ${COMP_WORDS[at]} == -- ]] || continue
        COMPREPLY=()
        if declare -F _comp_command_offset >/dev/null; then
            _comp_command_offset $((at + 1))
        elif declare -F _command_offset >/dev/null; then
            _command_offset $((at + 1))
        elif ((COMP_CWORD == at + 1)); then
            mapfile -t COMPREPLY < <(compgen -c -- "$2")
        fi
        return 0
    done
    _becalm "$@"
}

complete -F _becalm_or_command -o bashdefault -o default becalm
