store /opt/store
PATH=/usr/bin:/bin "$(command -v becalm)" record -o run.becalm -- sh -c '/opt/store/store/*-app-*/bin/app; ls / >/dev/null' >/dev/null 2>&1
# Somebody sits at a terminal of 80 columns, and presses other keys each time.
cat >"$HERE/keys" <<'KEYS'
''
'2'
'4/store\r'
'ferrno=ENOENT\r5\r'
KEYS
cat >>"$HERE/env" <<'ENV'
becalm() {
    [ "$1" = browse ] || { command becalm "$@"; return; }
    eval "local keys=$(head -n 1 "$HERE/keys")"
    sed -i 1d "$HERE/keys"
    "$REPOSITORY/tests/docs/screen" 80x16 "$keys" "$HERE/bin/becalm" "$@"
}
ENV
