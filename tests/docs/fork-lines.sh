. "$REPOSITORY/tests/docs/scripts.inc"
