store /opt/store
environment /shared/env
mkdir -p /shared/work
echo 'import many; print(many.m7.x)' >/opt/store/sci.py
store /opt/two
app=$(echo /opt/two/store/*-app-*/bin/app)
becalm record -o /opt/store/before.becalm -- "$app"
becalm elf bind /opt/two/store >/dev/null
becalm record -o /opt/store/after.becalm -- "$app"
