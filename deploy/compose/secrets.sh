#!/bin/sh
# secrets.sh DIRECTORY: create a certificate, a key secret and tokens for the nodes, unless they exist.
set -eu

dir=$1
[ ! -e "$dir/done" ] || exit 0
umask 077
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -keyout "$dir/tls.key" -out "$dir/tls.crt" \
	-subj /CN=penstock -addext "subjectAltName=DNS:penstock-1,DNS:penstock-2,DNS:localhost,IP:127.0.0.1" 2>/dev/null
for name in key_secret admin_token viewer_token; do
	openssl rand -hex 32 >"$dir/$name"
done
# Prometheus runs as another user and reads its own copies.
mkdir -p "$dir/prometheus"
cp "$dir/viewer_token" "$dir/tls.crt" "$dir/prometheus/"
if [ "$(id -u)" = 0 ]; then
	chown 65532:65532 "$dir"/tls.* "$dir"/*_secret "$dir"/*_token
	chown -R 65534:65534 "$dir/prometheus"
fi
chmod 755 "$dir"
touch "$dir/done"
