#!/usr/bin/env bash
# A 32-bit Wine for the tests where apt cannot install wine32 beside the 64-bit one: unpacks Debian's i386 packages into a folder.
#     sudo dpkg --add-architecture i386 && sudo apt-get update
#     bash tools/unpack_wine32.sh build/wine32
#     CUTTLE_TEST_WINE32=build/wine32 pytest tests/clients
set -euo pipefail
folder=${1:?usage: unpack_wine32.sh FOLDER}
mkdir -p "$folder/packages"
cd "$folder/packages"
apt-get download wine32:i386 libwine:i386 libunwind8:i386 liblzma5:i386 zlib1g:i386 libgcc-s1:i386 libc6:i386 libz-mingw-w64
for package in *.deb; do dpkg-deb -x "$package" ..; done
cd .. && rm -r packages
