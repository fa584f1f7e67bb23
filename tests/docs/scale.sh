echo "PATH=$(numpy)/bin:\$PATH" >"$HERE/env"
becalm image build -o env.sqsh "$(numpy)" >/dev/null
