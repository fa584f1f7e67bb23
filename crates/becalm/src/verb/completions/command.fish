
# What follows `--` is a command, completed as if it stood alone.
function __fish_becalm_command
    set -l words (commandline -opc)
    set -l at (contains -i -- -- $words)
    set -e words[1..$at]
    complete -C (string join ' ' -- (string escape -- $words) (commandline -ct))
end
complete -c becalm -n "contains -- -- (commandline -opc)" -f -a "(__fish_becalm_command)"
