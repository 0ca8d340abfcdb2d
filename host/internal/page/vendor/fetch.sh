#!/bin/sh
# Brings the libraries of the console into this folder: pinned packages of npm, their modules
# as they were published, but for the names of modules that a browser finds by path. Run it
# after a change of a version below, review the difference, and run make notice.
set -eu
cd "$(dirname "$0")"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
npm install --silent --no-audit --no-fund --no-save --ignore-scripts --prefix "$tmp" preact@11.2.0 htm@3.1.1
from=$tmp/node_modules
strip='/^\/\/# sourceMappingURL=/d'
sed "$strip" "$from/preact/dist/preact.mjs" >preact.js
sed -e "$strip" -e 's|from *"preact"|from"./preact.js"|' "$from/preact/hooks/dist/hooks.mjs" >hooks.js
sed "$strip" "$from/htm/dist/htm.module.js" >htm.js
: >LICENSES
for name in preact htm; do
	version=$(sed -n 's/^ *"version": *"\(.*\)".*/\1/p' "$from/$name/package.json" | head -1)
	printf '== %s %s\n\n' "$name" "$version" >>LICENSES
	cat "$from/$name/LICENSE" >>LICENSES
	echo >>LICENSES
done
sha256sum htm.js hooks.js preact.js >SHA256SUMS
