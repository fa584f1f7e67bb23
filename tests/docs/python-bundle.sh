ln -s "$(numpy)" venv
mkdir app
echo 'import json, email' >app/sci.py
