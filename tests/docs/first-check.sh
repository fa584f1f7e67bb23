store /opt/store
ln -s "$(numpy)" venv
echo "PATH=$(numpy)/bin:\$PATH" >"$HERE/env"
becalm record -o before.becalm -- /usr/bin/python3 -c 'import json'
becalm record -o after.becalm -- /usr/bin/python3 -c 'import json, email'
