// Package torture kills the real binary, and the brokers under it, and looks with
// independent eyes at what is left.
//
// A run is an episode, or many: a job of its own on topics of its own, fed all the
// time, whose worker is a child process. It is killed with SIGKILL when it passes
// a named point of the protocol (points.go) or at a random time, and again while
// it recovers; checkpoints are aborted after every sink has prepared. At the end
// the input stops, the job drains and stops by itself, and the checkers look
// (check*.go): nothing of them is product code but package verify, which shares
// nothing with the engine either.
//
//	go test ./integration/torture -short            a minute: some of everything
//	go test ./integration/torture                   the full counts, about eight minutes on two cores
//	go test ./integration/torture -args -long       four times as many, 1 GiB of state
//	go test ./integration/torture -run Kills/fake -args -kills 50 -seed 7
//
// Parts have ranks: with a budget of time (ETL_TORTURE_BUDGET) what is demanded by
// number comes first, and what there is no time for is a shortfall that is printed.
// A run of all parts is judged by the table of demand.go.
//
// docs/torture.md says what runs, what is counted and how to resume and replay.
package torture
