#!/bin/sh
# Make a folder of links to the few programs that `make demo` and `make test` may need, for use as PATH:
#     PATH=$(sh deploy/bare_path.sh FOLDER) make test
# coreutils, sh, tar, git, make and Python; nothing that Debian has in another package of its own.
set -eu
folder=${1:?a new folder for the links}
mkdir "$folder"
for name in '[' arch b2sum base32 base64 basename basenc cat chcon chgrp chmod chown cksum comm cp csplit cut date dd df \
    dir dircolors dirname du echo env expand expr factor false fmt fold groups head hostid id install join link ln logname \
    ls md5sum mkdir mkfifo mknod mktemp mv nice nl nohup nproc numfmt od paste pathchk pinky pr printenv printf ptx pwd \
    readlink realpath rm rmdir runcon seq sha1sum sha224sum sha256sum sha384sum sha512sum shred shuf sleep sort split \
    stat stdbuf stty sum sync tac tail tee test timeout touch tr true truncate tsort tty uname unexpand uniq unlink users \
    vdir wc who whoami yes sh tar git make; do
    program=$(command -v -- "$name") || continue
    case "$program" in
    /*) ;;
    *) program=/usr/bin/$name ;; # built into the shell too
    esac
    [ ! -x "$program" ] || ln -s "$program" "$folder/$name"
done
ln -s "$(python3 -c 'import sys; print(sys.executable)')" "$folder/python3"
echo "$folder"
