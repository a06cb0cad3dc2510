// Package stablehlo writes a program as the StableHLO text that XLA compiles.
package stablehlo
