// Package kafka brings the component type kafka to the pipeline file: the
// connection, the source and the sink. It stands apart from package config so that
// that one links no client; a program that wants Kafka calls [Register].
//
// It only translates: keys of the file into the configurations of source/kafka,
// sink/twophase/kafka and internal/kafkaconn, and their problems back to keys.
package kafka
