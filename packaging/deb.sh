#!/bin/sh
# Makes a Debian package of a program that make dist has built, without root:
# packaging/deb.sh dist/redoubt-0.2.0-linux-amd64/redoubt amd64 dist
set -eu
program=$1 arch=$2 to=$3
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's/^\tRedoubt = "\(.*\)"$/\1/p' "$here/../version/version.go")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
install -d -m 755 "$root/DEBIAN" "$root/usr/bin" "$root/etc/redoubt" "$root/lib/systemd/system" "$root/usr/share/doc/redoubt"
install -m 755 "$program" "$root/usr/bin/redoubt"
install -m 644 "$here/redoubt.conf" "$root/etc/redoubt/redoubt.conf"
install -m 644 "$here/redoubt.service" "$root/lib/systemd/system/redoubt.service"
install -m 644 "$here/../LICENSE" "$root/usr/share/doc/redoubt/copyright"
echo /etc/redoubt/redoubt.conf >"$root/DEBIAN/conffiles"
cat >"$root/DEBIAN/control" <<EOF
Package: redoubt
Version: $version
Architecture: $arch
Maintainer: The Redoubt authors <redoubt@localhost>
Section: database
Priority: optional
Depends: adduser
Description: database that speaks Redis and keeps what it acknowledged
 Any Redis client works with it. Rows live in memory and on disk; a write that
 was acknowledged survives a crash.
EOF
cat >"$root/DEBIAN/postinst" <<'EOF'
#!/bin/sh
set -e
if [ "$1" = configure ]; then
	getent passwd redoubt >/dev/null || adduser --system --group --home /var/lib/redoubt --no-create-home redoubt
	# The password may be in there.
	chown root:redoubt /etc/redoubt/redoubt.conf
	chmod 640 /etc/redoubt/redoubt.conf
	if [ -d /run/systemd/system ]; then
		systemctl daemon-reload
		systemctl try-restart redoubt.service
	fi
fi
EOF
cat >"$root/DEBIAN/prerm" <<'EOF'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	systemctl disable --now redoubt.service
fi
EOF
chmod 755 "$root/DEBIAN/postinst" "$root/DEBIAN/prerm"
dpkg-deb --root-owner-group --build "$root" "$to/redoubt_${version}_$arch.deb"
