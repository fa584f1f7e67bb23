cat >"$HERE/env" <<'END'
mkfifo hold
bash -c 'printf -v x "%*s" 100000000 ""; echo ready; while :; do read -r -t 9 <>hold; done' >ready &
PID=$!
trap 'kill $PID' EXIT
until [ -s ready ]; do sleep 0.1; done
END
