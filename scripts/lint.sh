#!/usr/bin/env bash
# lint.sh [quick] : everything that judges the source without running it. quick leaves out
# what takes minutes where nothing is compiled yet; CI runs all of it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2 # not in go.mod: the product does not need it
cd "$repo"

unformatted=$(git ls-files -z --cached --others --exclude-standard -- '*.go' | xargs -0 -r ls -d 2>/dev/null | xargs -r gofmt -l)
[ -z "$unformatted" ] || die "not formatted (make fmt): $unformatted"
go test ./internal/lint
[ "${1:-}" != quick ] || exit 0
go vet ./...
go vet -tags broken ./...
if go run "$staticcheck" -version >/dev/null 2>&1; then
  go run "$staticcheck" ./...
else
  echo "TIER SKIPPED staticcheck: $staticcheck cannot be fetched"
fi
