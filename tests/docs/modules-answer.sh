. "$REPOSITORY/tests/docs/modules.inc"
cat >"$HERE/env" <<'END'
. /etc/profile.d/modules.sh
module use /apps/modulefiles
END
