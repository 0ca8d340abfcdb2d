#!/bin/sh
# Makes the file system of the image in DIR: the command, the certificates of public authorities, a
# user without rights and its data directory. The Dockerfile runs it, and so does a test where no
# container can be built.
#
#	deploy/image.sh DIR
set -eu
cd "$(dirname "$0")/.."
out=$1
tags=${TAGS:-grpcnotrace}
mkdir -p "$out/bin" "$out/etc/ssl/certs" "$out/data" "$out/tmp"
CGO_ENABLED=0 go build ${BUILDFLAGS--trimpath} -tags "$tags" -ldflags='-s -w' -o "$out/bin/stile" ./cmd/stile
for bundle in /etc/ssl/certs/ca-certificates.crt /etc/ssl/cert.pem; do
	if [ -r "$bundle" ]; then
		cp -L "$bundle" "$out/etc/ssl/certs/ca-certificates.crt"
		break
	fi
done
[ -s "$out/etc/ssl/certs/ca-certificates.crt" ] || { echo "image.sh: no certificates of public authorities here; install ca-certificates" >&2; exit 1; }
echo 'stile:x:65532:65532::/data:/bin/stile' >"$out/etc/passwd"
echo 'stile:x:65532:' >"$out/etc/group"
cp LICENSE NOTICE "$out/"
chmod 0700 "$out/data"
chmod 1777 "$out/tmp"
