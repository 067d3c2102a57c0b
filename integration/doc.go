// Package integration tests the promises of the product, one file each, on real
// Apache Kafka: the built program runs a pipeline file, as a user would run it, is
// stopped, killed, refused or left without its broker, and what it wrote is then
// looked at from outside, by `etl verify` and by a reader of the test's own.
//
// What a promise means inside one package is tested there; here it is only what
// the whole must keep. The kill harness, with its many kills, is in torture.
//
// Rules:
//   - Brokers come from internal/kafkatest. Three at most: the shared one, which
//     nobody mistreats, one that is killed (victim), and one with rules of its own
//     (strict). Tests run beside each other: names are unique, and waiting costs
//     nothing.
//   - A test waits for what it can see from outside (a log line, a row, an exit),
//     never for time to pass, except where time is what it is about.
//   - docs/field-bugs.md says which test covers which bug that others have had; a
//     test here keeps it true.
package integration
