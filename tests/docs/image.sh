cp -a "$(numpy)" venv
sed -i "s|$(numpy)|$PWD/venv|g" venv/bin/activate venv/pyvenv.cfg
