// Package file brings the component type file to the pipeline file: a sink that writes
// part files. It stands apart from package config so that that one links no format; a
// program that wants files calls [Register].
//
// It only translates: keys of the file into the configuration of sink/twophase/file, and
// its problems back to keys.
package file
