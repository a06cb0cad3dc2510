// Package cost reads out of a program what one run takes of one device: FLOPs and
// element operations, bytes read and written (WorkOf), the most memory that is held
// at one time (MemoryOf), and what the collectives send (Collectives). It reads the
// instructions alone and knows no hardware, so a figure is the same on every machine.
//
// Traffic is exact. Bytes and memory follow a small model of what a compiler computes
// in one pass and keeps no buffer for: buffers.go lists its rules, and memory.go those
// by which buffers are held and freed.
package cost
