package main

import "strings"

// kind is a set of packages. Markers are import paths: a package whose tests
// link one of them, directly or not, is of this kind. Below is a folder, which
// decides first. The first kind that fits counts.
type kind struct {
	name    string
	below   string
	markers []string
}

var kinds = []kind{
	{name: "lint", below: "etl/internal/lint"},
	{name: "torture", below: "etl/integration/torture"},
	{name: "promises", below: "etl/integration"},
	{name: "bench", below: "etl/bench"},
	{name: "services", below: "etl/internal/testservice"},
	{name: "services", below: "etl/internal/kafkatest"},
	{name: "services", below: "etl/internal/pgtest"},
	{name: "services", below: "etl/internal/redistest"},
	{name: "real", markers: []string{"etl/internal/kafkatest", "etl/internal/pgtest", "etl/internal/redistest"}},
	{name: "simulation", markers: []string{"etl/internal/simtest"}},
	{name: "kfake", markers: []string{"github.com/twmb/franz-go/pkg/kfake"}},
	{name: "scenarios", markers: []string{"github.com/cockroachdb/datadriven"}},
	{name: "unit"}, // all others
}

// tier is one row of the table that a run prints.
type tier struct {
	name    string
	about   string
	group   string   // "test", "torture" or "long"
	kinds   []string // whose packages it runs
	pkgs    []string // these packages too, by path
	command []string // instead of packages: a program that judges by its exit code
	flags   []string // for go test
	env     []string
}

// Real servers are required in a run of the tiers. Containers of two packages must not
// start at once on a small machine; plain processes may, for most tests wait for a
// server most of the time. The caps are exact, so that append copies.
var (
	real     = []string{"ETL_REQUIRE_REAL=1"}
	oneByOne = []string{"-p=1", "-count=1"}
	abreast  = []string{"-p=3", "-count=1"}
)

// lean leaves out what costs a minute where nothing is compiled yet and shows nothing
// here: vet, which make lint runs for all packages at once, and what only debuggers read.
var lean = []string{"-vet=off", "-ldflags=-w"}

// slow are the tests that do more with ETL_SLOW or ETL_HEAL_TRIES.
var slow = []string{"TestExpiredMarkerOnABroker", "TestBrokerKilledAtEndTxn", "TestBrokerKilledWhileFencing", "TestBrokerKilledUnderTheWriter",
	"TestConformance", "TestConformanceOnOldKafka", "TestControls"}

// tiers in the order they run: what fails quickly comes first.
var tiers = []tier{
	{name: "lint", group: "test", about: "format and the house rules; make lint has vet and staticcheck, too", command: []string{"scripts/lint.sh", "quick"}},
	{name: "unit", group: "test", about: "pure packages, model tests, seeds of the fuzzers", kinds: []string{"unit"}},
	{name: "scenarios", group: "test", about: "coordinator, aligner, log as stories", kinds: []string{"scenarios"}},
	{name: "kfake", group: "test", about: "commands and adapters on the in-process broker; the whole engine in virtual time, 60 seeds", kinds: []string{"kfake", "simulation"}, env: []string{"ETL_SIM_SEEDS=60"}},
	{name: "real-process", group: "test", about: "adapters on real Kafka, PostgreSQL and Redis, run as plain processes",
		kinds: []string{"services", "real"}, flags: abreast, env: append(real, "ETL_TEST_VIA=process")},
	{name: "real-containers", group: "test", about: "the test services again, on testcontainers",
		kinds: []string{"services"}, flags: oneByOne, env: append(real, "ETL_TEST_VIA=container")},
	{name: "promises", group: "test", about: "one file per promise, on testcontainers where an engine answers",
		kinds: []string{"promises"}, flags: append(oneByOne, "-parallel=4"), env: real},
	{name: "kills-short", group: "test", about: "the kill harness, few kills",
		kinds: []string{"torture"}, flags: append(oneByOne, "-short"), env: real},

	{name: "kills", group: "torture", about: "the kill harness, full counts, bounded by ETL_TORTURE_BUDGET",
		kinds: []string{"torture"}, flags: append(oneByOne, "-timeout=0"), env: real},
	{name: "slow", group: "torture", about: "tests on real Kafka and PostgreSQL that wait for a minute, kill many times, or build broken programs",
		pkgs: []string{"etl/sink/kafkatxn", "etl/sink/twophase/kafka", "etl/sink/twophase/postgres"}, flags: append(oneByOne, "-run=^("+strings.Join(slow, "|")+")$"),
		env: append(real, "ETL_TEST_VIA=process", "ETL_SLOW=1", "ETL_HEAL_TRIES=4")},
	{name: "controls", group: "torture", about: "one rule broken at a time, which the tests of sinks for PostgreSQL and Redis must notice",
		pkgs: []string{"etl/sink/idempotent/postgres", "etl/sink/idempotent/redis", "etl/sink/sqltxn", "etl/sink/wal/postgres"}, flags: append(oneByOne, "-run=^TestControls$"),
		env: append(real, "ETL_TEST_VIA=process", "ETL_SLOW=1")},
	{name: "simulation", group: "torture", about: "the whole engine in virtual time: 200 seeds that must meet everything, and one rule broken at a time",
		kinds: []string{"simulation"}, flags: []string{"-count=1", "-timeout=0"}, env: []string{"ETL_SLOW=1"}},
	{name: "simulation-long", group: "long", about: "the whole engine in virtual time, 2,000 seeds",
		kinds: []string{"simulation"}, flags: []string{"-count=1", "-timeout=0"}, env: []string{"ETL_SIM_SEEDS=2000"}},
}
