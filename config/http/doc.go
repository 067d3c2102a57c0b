// Package http brings the component type http to the pipeline file: a sink that sends
// batches of JSON to an endpoint. It stands apart from package config as the components of
// other systems do; a program that wants it calls [Register].
//
// It only translates: keys of the file into the configuration of sink/wal/http, and its
// problems back to keys.
package http
