// Package jsondoc reads one JSON document in place: a single pass checks it and
// notes where each value lies in the text. Nothing is copied and nothing is
// decoded until somebody asks, so that a value which is only passed on keeps its
// bytes, whatever its precision.
//
// # Why not a library
//
// Strictness needs a scanner of its own in any case (duplicate names, lone
// surrogates and depth are checked by none of the fast parsers), and with it the
// index is a few lines. The parsers measured here copy the text, spend 80 bytes
// on a value, and fastjson unescapes strings in place when their type is asked
// for and then writes them back in Go's quoting, which is not JSON ("\x01").
// The tests hold this package against encoding/json and fastjson.
//
// # What strict means
//
// RFC 8259, and beyond it:
//
//   - one value and nothing after it, no byte order mark, not empty;
//   - valid UTF-8, and no escaped surrogate without its partner, since there is
//     no text that such a string could mean;
//   - no name twice in an object, at any level and compared unescaped: readers
//     disagree on which one counts;
//   - at most [MaxDepth] levels of nesting.
//
// [Lenient] keeps the grammar and the depth and drops the other rules: the first
// of equal names counts, and text passes as it is.
//
// Names are compared through a 64-bit set of hashes first, so that objects of
// usual size cost one comparison or none per name; objects with more than 32
// names go through a hash map once, when they end.
//
// # Ownership
//
// A Doc reads the slice it was given: the slice must not change while the Doc is
// in use. A Doc is reused by parsing again, and is for one goroutine at a time.
package jsondoc
