. "$REPOSITORY/tests/docs/ranks.inc"
