store /opt/store
ln -s /opt/store/store/*-app-*/bin/app app
# What `becalm fix --apply -o app.calm -- ./app` writes for who does not own the files.
cp -a /opt/store original
becalm elf bind /opt/store >/dev/null
mv /opt/store app.calm.d
mv original /opt/store
state() {
    echo "${1}bytes = $(stat -c %s "$2")"
    [ -n "$1" ] || echo "mtime_ns = $(stat -c %.9Y "$2" | tr -d .)"
    echo "${1}digest = \"$(sha256sum "$2" | cut -d ' ' -f 1)\""
}
{
    echo 'schema = "becalm.calm/1"'
    echo 'command = ["./app"]'
    echo 'directory = "."'
    (cd app.calm.d && find . -type f) | sort | while read -r file; do
        cmp -s "/opt/store/$file" "app.calm.d/$file" && continue
        printf '\n[[shown]]\nfile = "%s"\n' "/opt/store/${file#./}"
        state '' "/opt/store/$file"
        printf 'copy = "%s"\n' "app.calm.d/${file#./}"
        state copy_ "app.calm.d/$file"
    done
    printf '\n[saves]\nmetadata_ops_before = 861\nmetadata_ops_after = 43\nenoent_before = 818\nenoent_after = 0\n'
    printf '\n[[saves.waits]]\nprofile = "nfs"\nranks = 1\nnodes = 1\nseconds_before = 0.19\nseconds_after = 0.01\n'
    printf '\n[[saves.waits]]\nprofile = "nfs"\nranks = 1000\nnodes = 16\nseconds_before = 0.65\nseconds_after = 0.04\n'
} >app.calm
