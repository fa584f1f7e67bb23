. "$REPOSITORY/tests/docs/modules.inc"
# A few of the names take as many words to tell.
if [ -z "${BECALM_BLESS:-}" ]; then
    rm -rf /apps/applications/app[c-fh-km-o] /apps/libraries/lib[c-fh-km-o]
fi
