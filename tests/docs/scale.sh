echo "PATH=$(numpy)/bin:\$PATH" >"$HERE/env"
