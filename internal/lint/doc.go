// Package lint holds the rules of this house as tests over the source itself:
// run "go test ./internal/lint". Each rule is one table and one test:
//
//   - arrows_test.go: which package may import which, inside and outside the
//     module. This is what keeps the engine free of its adapters.
//   - docs_test.go: every package says what it is for.
//   - calls_test.go: no wall clock, no global randomness, no printing, no exit
//     and no panic, except in places named with a reason; no sleeping in tests.
//   - length_test.go: functions and files stay short. What is too long is listed
//     in ratchet.txt with a reason, and the list can only shrink.
//   - mentions_test.go: nothing refers to folders outside the repository.
//
// A rule that is wrong is changed here, in the open; it is not worked around.
package lint
