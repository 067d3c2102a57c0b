// Package expr compiles and evaluates the expressions of a pipeline file over
// records: where, map, each, key, of, topic and columns.
//
// # The language
//
// The grammar is that of expr-lang/expr, whose parser is used; its manual holds
// for operators and function names. What is compiled from the syntax tree is not
// its virtual machine but closures over the bytes of the record, for three
// reasons, each of which would have meant replacing every operator anyway:
//
//   - Exactness. Numbers are exact decimals (package decimal): ids beyond 2^53
//     and prices keep every digit, and no result passes through float64.
//   - Repeatability. A replay must give the same bytes, so nothing depends on the
//     clock, the time zone, chance, or the order of a map.
//   - Cost. A plain path such as this.user.id is read where it stands, without
//     building a map and mostly without allocating.
//
// Names in scope:
//
//	this    the record's value: a JSON document, or {value: string} for text
//	meta    topic, partition, offset, timestamp (ms), key, headers["name"]
//	it      the element, inside flat_map
//	table, window   in operators that have them
//
// Names that a schema declares as aliases (this.key behind an aggregate) are
// resolved when the expression is compiled.
//
// # Values
//
// Kinds are null, bool, int, decimal, string, list and object. A path that leads
// nowhere is null; only a name that the schema rules out is an error, at compile
// time, with the names that come near. null equals null and nothing else; any
// other use of it is an error, so that a missing field cannot decide a filter
// unnoticed: say this.total ?? 0, or test for nil.
//
// An integer that fits 64 bits is an int, every other number a decimal. Integer
// results beyond 64 bits become decimals rather than wrap. / gives a decimal, to
// 34 significant digits; % wants ints. Strings compare by their bytes, and len,
// slices and indexOf count characters, indexOf from the start of the string.
//
// What differs from the manual: numbers as above, null-safe member access as if
// every dot were ?., keys and values in document order, matches only with a
// constant pattern, no dates, no now, no groupBy.
//
// # Errors
//
// [Compile] returns an [*Error] with a stable code and the place. An evaluation
// returns a *stream.Error that names topic, partition and offset, the expression
// and the column, and never a value. A panic inside an evaluation is contained
// and becomes such an error too.
//
// # Ownership
//
// A [Program] never changes and may be shared. An [Evaluator] belongs to one
// task. It parses a record at most once and leaves the document in Record.Doc for
// the operators chained behind: the document's memory stays the evaluator's, and
// it is parsed anew when the evaluator has reused it since, or when the value is
// not the very slice it was parsed from. So an exchange, which copies, must drop
// Doc, and nothing else has to be observed. A [Value] is valid until the next
// call on its evaluator.
package expr
