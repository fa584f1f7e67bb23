program app
. "$REPOSITORY/tests/docs/ranks.inc"
