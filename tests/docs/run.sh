. "$REPOSITORY/tests/docs/scripts.inc"
environment /shared/env
echo 'import many; print(many.m7.x)' >app.py
. "$REPOSITORY/tests/docs/ranks.inc"
mkdir -p package
