#!/bin/sh
# Builds archives of static programs, their checksums and lists of their modules into dist/:
# make dist. TARGETS says for which systems.
set -eu
cd "$(dirname "$0")/.."
[ -n "${TARGETS:-}" ] || TARGETS="linux/amd64 linux/arm64 darwin/amd64 darwin/arm64"
: "${GO:=go}" "${LDFLAGS:=}"
version=$(sed -n 's/^\tRedoubt = "\(.*\)"$/\1/p' version/version.go)
[ -n "$version" ] || { echo "FAIL the version is not in version/version.go"; exit 1; }
rm -rf dist
mkdir dist
for target in $TARGETS; do
	name=redoubt-$version-$(echo "$target" | tr / -)
	echo "$name"
	mkdir "dist/$name"
	CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} $GO build -trimpath -ldflags "-s -w $LDFLAGS" -o "dist/$name/redoubt" ./cmd/redoubt
	$GO run ./packaging/sbom "dist/$name/redoubt" >"dist/$name.cdx.json"
	cp LICENSE README.md packaging/redoubt.conf packaging/redoubt.service "dist/$name/"
	tar -C dist --sort=name --owner=0 --group=0 --numeric-owner --mtime="@${SOURCE_DATE_EPOCH:-0}" -czf "dist/$name.tar.gz" "$name"
done
cd dist
sha256sum -- *.tar.gz *.cdx.json >SHA256SUMS
