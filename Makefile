# etl: what one does here. "make help" prints the targets with a comment of two hashes.

TIERS ?=
BENCH ?=

# As the binary is shipped. With cgo, Pebble has another allocator and another zstd.
export CGO_ENABLED = 0

.PHONY: help
help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sort | sed 's/:.*## /\t/' | expand -t 12

.PHONY: demo
demo: ## records flow, the worker is killed, an independent recount: exactly once
	@go run ./cmd/etl demo

.PHONY: test
test: setup ## all tiers of tests, real Kafka and PostgreSQL included (TIERS="unit lint" for some)
	@go run ./internal/testrun $(TIERS)

.PHONY: torture
torture: setup ## hundreds of kills of workers, brokers and databases, controls, slow tests; ETL_TORTURE_BUDGET=14m bounds the kills (docs/torture.md)
	@go run ./internal/testrun torture

.PHONY: bench
bench: setup ## the benchmarks, each beside its floor (BENCH="-short ...")
	@go run ./bench $(BENCH)

.PHONY: lint
lint: ## format, vet, staticcheck and the house rules (internal/lint)
	@scripts/lint.sh

.PHONY: fmt
fmt: ## format the Go files
	@gofmt -l -w .

.PHONY: build
build: ## the binary, into bin/etl
	@go build -trimpath -o bin/etl ./cmd/etl

.PHONY: setup
setup: ## install what the tests on real servers need; a second once it is there
	@scripts/setup-test-services.sh

.PHONY: clean
clean: ## remove what was built, stop the tests' Docker engine
	@rm -rf bin dist
	@scripts/dockerd.sh stop
