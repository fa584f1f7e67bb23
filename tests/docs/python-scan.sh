ln -s "$(numpy)" venv
mkdir -p /opt/app
echo 'export PYTHONPATH=/opt/app' >"$HERE/env"
