// Package config turns a pipeline file into a job: a graph of package pipeline with
// the options it runs under. run, lint and plan load a file through the same
// [Loader], so that what lint accepts, run accepts.
//
// # Duties, in order
//
//  1. The text: size, encoding, nesting ([document]).
//  2. YAML to a tree of nodes that know their places, aliases resolved ([tree]).
//  3. Variables and secret files are put into the text of leaves ([interpolator]).
//     That comes after parsing, so that no value can add a key.
//  4. Leaves to Go values, by the tags of structs ([decoder]); the same tags give the
//     JSON Schema, the dump of the effective configuration and the reference page.
//  5. Components are made by the factories of a [Registry], sources first, so that
//     the schema of records flows to the expressions of their users.
//  6. What only shows when all is put together: the graph, the arithmetic of time,
//     places that collide, the guarantee of each path.
//
// Every step reports what it finds and goes on where it can: all problems come at
// once, each with file, line and column. A [Problem] is the same object in a
// terminal and under --json.
//
// # Component types
//
// A [Registry] maps the type words of a file to factories. The transforms are here;
// sources, sinks, storages and state backends are registered by the program, so
// that this package links no client and no database.
//
// # Secrets
//
// A value that came out of a file, or that stands in a secret field, is a [Secret],
// which prints as ***. ${file:...} in any other field is refused, and excerpts mask
// what stands behind a key that looks like one of a secret.
package config
