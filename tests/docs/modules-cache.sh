. "$REPOSITORY/tests/docs/modules.inc"
newest=${BECALM_TEST_HOME:-${XDG_CACHE_HOME:-$USERS_HOME/.cache}/becalm-tests}/modules/newest/modulecmd.tcl
for lmod in "${newest%/newest/*}"/lmod/usr/share/lmod/*; do
    [ ! -e "$lmod/libexec/update_lmod_system_cache_files" ] || break
done
echo "export MODULES_CMD=$newest LMOD_PKG=$lmod" >"$HERE/env"
mkdir -p /apps/lmod/cache
touch /apps/lmod/timestamp
