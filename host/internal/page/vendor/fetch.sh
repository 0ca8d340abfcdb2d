#!/bin/sh
# Brings the libraries of the console into this folder: pinned packages of npm, their modules
# as they were published, but for the names of modules that a browser finds by path and the
# export of uPlot, whose small form is a script. Run it
# after a change of a version below, review the difference, and run make notice.
set -eu
cd "$(dirname "$0")"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
npm install --silent --no-audit --no-fund --no-save --ignore-scripts --prefix "$tmp" preact@11.2.0 htm@3.1.1 uplot@1.6.32
from=$tmp/node_modules
strip='/^\/\/# sourceMappingURL=/d'
sed "$strip" "$from/preact/dist/preact.mjs" >preact.js
sed -e "$strip" -e 's|from *"preact"|from"./preact.js"|' "$from/preact/hooks/dist/hooks.mjs" >hooks.js
sed "$strip" "$from/htm/dist/htm.module.js" >htm.js
{ sed "$strip" "$from/uplot/dist/uPlot.iife.min.js" && echo 'export default uPlot;'; } >uplot.js
sed '$a\' "$from/uplot/dist/uPlot.min.css" >uplot.css
: >LICENSES
for name in preact htm uplot; do
	version=$(sed -n 's/^ *"version": *"\(.*\)".*/\1/p' "$from/$name/package.json" | head -1)
	printf '== %s %s\n\n' "$name" "$version" >>LICENSES
	cat "$from/$name/LICENSE" >>LICENSES
	echo >>LICENSES
done
sha256sum htm.js hooks.js preact.js uplot.css uplot.js >SHA256SUMS
