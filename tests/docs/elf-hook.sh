store /opt/store
