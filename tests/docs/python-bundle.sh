ln -s "$(numpy)" venv
mkdir app
echo 'import json, email; print(json.dumps({"a": 1}))' >app/sci.py
