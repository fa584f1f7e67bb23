# Thirty packages that need each other, each in a directory of its own, as a module system leaves them.
list=
for number in {01..30}; do
    mkdir -p /apps/p$number/lib/pkgconfig
    list=$list:/apps/p$number/lib/pkgconfig
    needs=
    [ $number = 01 ] || printf -v needs 'p%02d' $((10#$number - 1))
    # The last three directories have them all.
    file=/apps/p$((28 + 10#$number % 3))/lib/pkgconfig/p$number.pc
    mkdir -p "${file%/*}"
    printf '%s\n' "Name: p$number" 'Description: demo' 'Version: 1' "Requires: $needs" 'Libs:' >"$file"
done
echo "export PKG_CONFIG_PATH=${list#:}" >"$HERE/env"
