. "$REPOSITORY/tests/docs/scripts.inc"
# A program that bash never does itself.
cat >names.sh <<'END'
upper() {
    echo "$1" | awk '{ print toupper($0) }'
}
END
