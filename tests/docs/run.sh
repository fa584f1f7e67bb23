. "$REPOSITORY/tests/docs/scripts.inc"
. "$REPOSITORY/tests/docs/ranks.inc"
environment /shared/env
cp -r "$(numpy)"/lib/python3.*/site-packages/pip* /shared/env/lib/python3.*/site-packages/
printf '#!/shared/env/bin/python\nfrom pip._internal.cli.main import main\nmain()\n' >/shared/env/bin/pip
chmod +x /shared/env/bin/pip
echo 'PATH=/shared/env/bin:$PATH' >>"$HERE/env"
echo 'import many; print(many.m7.x)' >app.py
mkdir package
cat >package/pyproject.toml <<'END'
[build-system]
requires = []
build-backend = "own"
backend-path = ["."]
END
cat >package/own.py <<'END'
import zipfile


def build_wheel(directory, *_):
    name = "own-1.0-py3-none-any.whl"
    with zipfile.ZipFile(f"{directory}/{name}", "w") as wheel:
        wheel.writestr("own.py", "")
        info = "own-1.0.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
END
