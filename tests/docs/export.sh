becalm record -o run.becalm -- ls / >/dev/null
