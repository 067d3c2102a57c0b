// Command testrun runs the tests tier by tier and prints what ran:
//
//	go run ./internal/testrun             the tiers of "make test"
//	go run ./internal/testrun torture     the long ones
//	go run ./internal/testrun -list       the table of tiers
//	go run ./internal/testrun unit kfake  these tiers only
//
// A package belongs to exactly one kind, by what its tests link (packages.go):
// who links a real server is "real", who links the simulation "simulation", and
// so on. So a new package finds its tier by itself. The tiers are declared in one
// table (tiers.go); the kinds too.
//
// A tier that should have run and was skipped is a failure: silence is not a
// pass. ETL_SKIP_TIERS=a,b leaves tiers out on purpose, and the table says so.
// Below the table, every test and subtest that was skipped or failed is named, with its
// reason: of a long output, often only the end is kept.
package main
