store /opt/store
ln -s "$(numpy)" venv
