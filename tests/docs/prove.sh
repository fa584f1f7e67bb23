store /opt/store --runpath
mkdir -p /opt/app/bin /opt/farm
cp /opt/store/store/*-app-*/bin/app /opt/app/bin/app
ln -s /opt/store/store/*/lib/*.so* /opt/farm/
