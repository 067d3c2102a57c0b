package broken

// Rule names a rule of the protocol that a negative control breaks.
type Rule string

// The rules, each with the checker that must notice.
const (
	CommitBeforePublish     Rule = "commit-before-publish"        // duplicates
	NoCommitOnRecovery      Rule = "no-commit-on-recovery"        // missing
	FenceBeforeCommit       Rule = "fence-before-commit"          // missing
	MarkerOmitted           Rule = "marker-omitted"               // declared loss of what is there
	MarkerNotRead           Rule = "marker-not-read"              // declared loss of what is there
	NoHeal                  Rule = "no-heal"                      // pinned last stable offset
	NoClean                 Rule = "no-clean"                     // resurrected rows
	ForeignBaseReused       Rule = "foreign-base-reused"          // wrong counts
	OffsetsAfterBarrier     Rule = "offsets-after-barrier"        // missing
	AlignmentSkipped        Rule = "alignment-skipped"            // wrong counts
	FlushErrorsIgnored      Rule = "flush-errors-ignored"         // missing
	CapturedBeforeFlush     Rule = "captured-before-flush"        // missing
	AbortedDeltaDropped     Rule = "aborted-delta-dropped"        // wrong counts
	AbortedCommitUnlisted   Rule = "aborted-committable-unlisted" // missing
	FinishErrorTolerated    Rule = "finish-error-tolerated"       // missing
	EpochBeforeAcknowledged Rule = "epoch-before-acknowledged"    // order
	PublishWithoutLog       Rule = "publish-without-log"          // two owners
	PrepareTagUnchecked     Rule = "prepare-tag-unchecked"        // missing, or declared loss
	GidOfNewAttempt         Rule = "gid-of-new-attempt"           // declared loss, prepared transactions left
	RetryInTransaction      Rule = "retry-in-transaction"         // missing
	MissingIsCommitted      Rule = "missing-is-committed"         // missing
	StagedRowsDropped       Rule = "staged-rows-dropped"          // declared loss of what was staged
	PartNotSynced           Rule = "part-not-synced"              // missing, after a loss of power
	IntentOmitted           Rule = "intent-omitted"               // declared loss of what is there
	PartReplaces            Rule = "part-replaces"                // altered: a stranger's file is gone
	FenceIgnoresIntent      Rule = "fence-ignores-intent"         // missing
	VersionGuardOmitted     Rule = "version-guard-omitted"        // a reader sees an older value
	FencedIsFatal           Rule = "fenced-is-fatal"              // declared loss of what is there
	FenceUnchecked          Rule = "fence-unchecked"              // a fenced process commits
)

// NoCooling breaks nothing: it takes a margin away. A subtask of a Kafka sink gets
// two slots, so that each is used again as soon as its commit is verified, and a
// restart finds its transactions ended by others: only the marker tells then. The
// controls about markers go with it.
const NoCooling Rule = "no-cooling"
