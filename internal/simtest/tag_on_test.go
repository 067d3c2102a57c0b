//go:build synctests

package simtest

// virtualMutexes: the Kafka client waits for its mutexes in a way that lets virtual
// time pass.
const virtualMutexes = true
