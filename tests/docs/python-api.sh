store /opt/store
cp /opt/store/store/*-app-*/bin/app /opt/store/app
cat >"$HERE/env" <<END
PATH=$(dirname "$(numpy)")/packaging/bin:\$PATH
export PYTHONPATH=$REPOSITORY/packaging/python PYTHONDONTWRITEBYTECODE=1
END
cat >storms.py <<'END'
import becalm

check = becalm.check(["/opt/store/app"], profile="lustre", ranks=1024)
print(check.verdict, "-", check.headline)
for storm in check.storms:
    print(f"{storm.name}: {storm.metadata_ops} operations, {storm.wait.one_rank:.2f} s")
for cure in check.cures:
    print(f"{cure.actor}: {cure.command}")
END
cat >missing.py <<'END'
import collections, os, sys
import becalm

start = becalm.record([sys.executable, "-c", "import email.mime.text"], "start.becalm")
failed = collections.Counter(
    os.path.dirname(call["path"])
    for call in start.events("call")
    if call["metadata_op"] and call["error"] == "ENOENT"
)
print(sum(failed.values()), "failed lookups in", len(failed), "directories")
print("most by:", start.report(by="cause")["rows"][0]["key"])
END
cat >table.py <<'END'
import becalm

table = becalm.Recording("start.becalm").to_arrow()
print(table.column_names[:4])
print(table.group_by("cause").aggregate([("took_ns", "sum")]).column_names)
END
