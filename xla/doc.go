// Package xla runs programs through XLA: it loads a PJRT plugin, opens a
// client, moves buffers, compiles StableHLO and executes it on one device or
// many, with no cgo.
//
// N devices are N replicas with one partition, and replica groups over replica
// ids. weft partitions; XLA compiles what one device does.
//
// What this package keeps away from its callers (all of it measured, with three
// CPU plugins of PJRT API 0.81, 0.106 and 0.115, on 2 cores):
//
//   - More than about 32 unfinished calls of a program with collectives hang a
//     CPU plugin for ever: its thread pool is full of calls waiting for calls
//     that have no thread. A client's pool is sized by NPROC at the moment the
//     client is made, so it is set to twice the devices there, and a client has
//     at most Window unfinished calls.
//   - XLA aborts the process when a device is 60 s late at a collective. The
//     time-outs are raised to a day, and a watchdog of weft's own returns
//     ErrCollectiveTimeout instead.
//   - A refused argument on one device of several leaves the others waiting; a
//     plugin may also crash. Every argument is checked before a call, and after
//     a failed call on several devices the client is dead.
//   - Wrong compile options abort: they are built from checked values only.
package xla
