store /opt/store
ln -s /opt/store/store/*-app-*/bin/app app
