program app
. "$REPOSITORY/tests/docs/ranks.inc"

ln -s "$REPOSITORY/setup" setup
environment env
echo 'import sys' >app.py
becalm image build -o env.sqsh env >/dev/null
