#!/usr/bin/env bash
# lint.sh : everything that judges the source without running it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2 # not in go.mod: the product does not need it
cd "$repo"

unformatted=$(git ls-files -z --cached --others --exclude-standard -- '*.go' | xargs -0 -r ls -d 2>/dev/null | xargs -r gofmt -l)
[ -z "$unformatted" ] || die "not formatted (make fmt): $unformatted"
go vet ./...
go vet -tags broken ./...
go test ./internal/lint
if go run "$staticcheck" -version >/dev/null 2>&1; then
  go run "$staticcheck" ./...
else
  echo "TIER SKIPPED staticcheck: $staticcheck cannot be fetched"
fi
