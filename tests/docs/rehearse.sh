environment venv
cat >app.py <<'END'
END
