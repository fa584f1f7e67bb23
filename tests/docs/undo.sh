store /opt/store
becalm elf bind /opt/store/store >/dev/null
