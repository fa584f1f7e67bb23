cat >storm.sh <<'END'
#!/bin/bash
for i in $(seq 400); do
    x=$(dirname /a/b/$i)
done
END
chmod +x storm.sh
