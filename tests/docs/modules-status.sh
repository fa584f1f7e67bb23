. "$REPOSITORY/tests/docs/modules.inc"
echo 'export MODULEPATH=/apps/libraries:/apps/applications' >"$HERE/env"
