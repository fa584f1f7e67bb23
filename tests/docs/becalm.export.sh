becalm record -o run.becalm -- ls /no/such/file /etc || true
