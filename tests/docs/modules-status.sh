. "$REPOSITORY/tests/docs/modules.inc"
