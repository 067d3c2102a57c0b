// Package redis brings the component type redis to the pipeline file: the connection and
// the sink. It stands apart from package config so that that one links no client; a
// program that wants Redis calls [Register].
//
// It only translates: keys of the file into the configuration of sink/idempotent/redis,
// and its problems back to keys.
package redis
