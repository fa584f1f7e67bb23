store /opt/store
environment /shared/env
echo 'import many; print(many.m7.x)' >/opt/store/sci.py
